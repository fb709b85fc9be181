from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tree
from dm_env import specs

from repertory.components.environments import catch, registry
from tests import conformance

NAMES = [
    'catch',
    'catch?rows=6&columns=3&step_limit=4',
    'memory_chain?query_period=2&num_queries=2&action_reward=true',
    'gym:CartPole-v1',
    'gym:Pendulum-v1?canonical=true&reward_scale=0.01',
    'atari:Pong',
    'atari:SpaceInvaders?full_action_set=true&num_frames=1',
    'control:cartpole:swingup',
    'control:reacher:easy?concat=true&action_repeat=2',
    'bsuite:memory_len/0',
    'bsuite:catch/0?frame_stack=2',
]
PACKAGES = {'atari': 'ale_py', 'control': 'dm_control', 'bsuite': 'bsuite'}


def make(name, seed=0):
    package = PACKAGES.get(name.partition(':')[0])
    if package is not None:
        pytest.importorskip(package)
    return registry.make_environment(name, seed)


def sample(spec, random):
    if isinstance(spec, specs.DiscreteArray):
        return spec.dtype.type(random.integers(spec.num_values))
    return random.uniform(spec.minimum, spec.maximum, spec.shape).astype(spec.dtype)


def play(name, seed, num_steps=30):
    environment = make(name, seed)
    random = np.random.default_rng(0)
    spec = environment.action_spec()
    actions = [
        tree.map_structure(lambda leaf: sample(leaf, random), spec)
        for _ in range(num_steps)
    ]
    steps = [environment.reset()] + [environment.step(action) for action in actions]
    environment.close()
    return steps


@pytest.mark.parametrize('name', NAMES)
def test_made_environments_conform_in_single_precision(name):
    conformance.check(lambda: make(name))
    environment = make(name)
    every = [environment.observation_spec(), environment.action_spec()]
    every += [environment.reward_spec(), environment.discount_spec()]
    assert all(leaf.dtype != np.float64 for leaf in tree.flatten(every))


def test_a_control_task_is_the_stock_one_but_for_its_sky():
    suite = pytest.importorskip('dm_control.suite')
    made = make('control:cartpole:swingup', seed=3)
    stock = suite.load('cartpole', 'swingup', task_kwargs={'random': 3})
    sky, stock_sky = (one.physics.model.tex_width[0] for one in (made, stock))
    assert sky < stock_sky / 10
    steps = [(made.reset(), stock.reset())]
    steps += [(made.step(a), stock.step(a)) for a in np.linspace(-1, 1, 20)[:, None]]
    for ours, theirs in steps:
        assert ours.reward == (theirs.reward and np.float32(theirs.reward))
        same = tree.map_structure(np.float32, theirs.observation)
        np.testing.assert_equal(ours.observation, same)


@pytest.mark.parametrize('name', NAMES)
def test_seeds_repeat_and_differ(name):
    first, same, other = (play(name, seed) for seed in (3, 3, 4))
    tree.map_structure(np.testing.assert_array_equal, first, same)
    pairs = zip(tree.flatten(first), tree.flatten(other))
    assert any(not np.array_equal(one, two) for one, two in pairs)


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        ('cathc', r"name must be .* got 'cathc'; did you mean catch\?"),
        ('gym:CartPole-v7', 'did you mean gym:CartPole-v1'),
        ('gym:Cart Pole', 'did you mean gym:CartPole-v'),
        ('atari:Pongg', 'did you mean atari:Pong'),
        ('control:cartpole:swing', 'did you mean control:cartpole:swingup'),
        ('control:cartpole', 'did you mean control:cartpole'),
        ('bsuite:memorylen/0', 'did you mean bsuite:memory_len/0'),
        ('quake:e1m1', 'did you mean catch, memory_chain, gym:CartPole-v1'),
        ('gym', 'did you mean catch'),
        ('catch:3', 'did you mean catch'),
        ('catch?row=3', r"option of catch must be .* got 'row'; did you mean rows\?"),
        ('catch?rows=x', "rows must be an integer, got 'x'"),
        ('catch?step_limit=1.5', "step_limit must be an integer, got '1.5'"),
        ('catch?canonical=1', "canonical must be true or false, got '1'"),
        ('gym:Pendulum-v1?reward_scale=x', "reward_scale must be a number, got 'x'"),
    ],
)
def test_unknown_names_and_options_are_refused_with_near_ones(name, message):
    with pytest.raises(ValueError, match=message):
        make(name)


def test_data_that_cannot_be_loaded_are_named(monkeypatch):
    bsuite = pytest.importorskip('bsuite.bsuite')

    def load(**unused):
        raise OSError('no network')

    monkeypatch.setitem(bsuite.EXPERIMENT_NAME_TO_ENVIRONMENT, 'catch', load)
    with pytest.raises(ValueError, match="data .* got 'bsuite:catch/0' .*no network"):
        make('bsuite:catch/0')


@pytest.mark.parametrize(
    ('name', 'package', 'extra'),
    [
        ('atari:Pong', 'ale_py', 'repertory[atari]'),
        ('control:cartpole:swingup', 'dm_control', 'repertory[control]'),
        ('bsuite:memory_len/0', 'bsuite', 'repertory[bsuite]'),
    ],
)
def test_a_missing_package_is_named_with_its_extra(name, package, extra):
    code = f"""
import sys
sys.modules[{package!r}] = None
from repertory.components.environments import registry
try:
    registry.make_environment({name!r}, 0)
except ValueError as error:
    print(error)
"""
    output = subprocess.check_output([sys.executable, '-c', code], text=True)
    assert f"pip install '{extra}'" in output
    assert package in output


def test_making_environments_imports_no_tensorflow():
    names = [name for name in NAMES if '?' not in name]
    code = f"""
import sys
from repertory.components.environments import registry
for name in {names!r}:
    try:
        registry.make_environment(name, 0)
    except ValueError:
        pass  # not installed
print('tensorflow' in sys.modules)
"""
    output = subprocess.check_output([sys.executable, '-c', code], text=True)
    assert output.split()[-1] == 'False'


def test_options_reach_what_is_made():
    environment = make('catch?rows=6&columns=3&frame_stack=2')
    assert environment.observation_spec().shape == (6, 3, 2)
    assert isinstance(environment._environment._environment, catch.Catch)
    assert make('catch?canonical=false').action_spec().num_values == 3


def test_bounded_actions_are_in_minus_one_to_one_unless_told_otherwise():
    for name in 'gym:Pendulum-v1', 'gym:Pendulum-v1?canonical=true':
        spec = make(name).action_spec()
        assert (spec.minimum, spec.maximum) == (-1, 1)
    raw = make('gym:Pendulum-v1?canonical=false').action_spec()
    assert (raw.minimum, raw.maximum) == (-2, 2)


def test_the_full_range_of_actions_is_reached():
    one, other = make('gym:Pendulum-v1'), make('gym:Pendulum-v1?canonical=false')
    one.reset(), other.reset()
    for action in (-1.0, 1.0, 0.25):
        scaled = one.step(np.array([action], np.float32))
        raw = other.step(np.array([2 * action], np.float32))
        np.testing.assert_allclose(scaled.observation, raw.observation, rtol=1e-5)
        np.testing.assert_allclose(scaled.reward, raw.reward, rtol=1e-5)
