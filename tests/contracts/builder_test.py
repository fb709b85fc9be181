"""What every agent's builder and config must hold to; agents are found by folder."""

import ast
import dataclasses
import importlib
import pathlib
import re

import numpy as np
import pytest
import tree

from repertory import agents
from repertory.agents import builder
from repertory.components import actor, core, environment_loop, specs
from repertory.components.environments import registry, vector
from repertory.launch.cli import names
from repertory.replay import prefetching, server
from tests import fakes

_FOLDER = pathlib.Path(agents.__path__[0])
NAMES = [name.replace('-', '_') for name in names.agent_names()]
ENVIRONMENTS = {'d4pg': 'gym:Pendulum-v1', 'apex_dpg': 'gym:Pendulum-v1'}
_SMALL = {
    'min_replay_size': 1,
    'max_replay_size': 100,
    'samples_per_insert': None,
    'batch_size': 4,
    'updates_per_call': 2,
}
LANES = 2


def _config(name):
    config = importlib.import_module(f'repertory.agents.{name}.config').Config()
    known = {field.name for field in dataclasses.fields(config)}
    small = {key: value for key, value in _SMALL.items() if key in known}
    return dataclasses.replace(config, **small)


def _spec(config, environment_id):
    wrapped = config.wrap_environment(registry.make_environment(environment_id, 0))
    with vector.SerialVectorEnvironment([wrapped]) as one:
        return one.spec


class _Parts:
    """An agent's parts around a replay server, with rows written by its actor."""

    def __init__(self, name):
        self.config = _config(name)
        # Stacks, which replay takes apart and the dataset puts together.
        environment_id = f'{ENVIRONMENTS.get(name, "catch")}?frame_stack=3'
        self.environment = vector.SerialVectorEnvironment(
            [
                self.config.wrap_environment(
                    registry.make_environment(environment_id, seed)
                )
                for seed in range(LANES)
            ]
        )
        self.spec = self.environment.spec
        self.builder = self.config.make_builder()
        self.role = core.Role(num_lanes=LANES)
        self.networks = self.builder.make_networks(self.spec)
        self.policy = self.builder.make_policy(self.networks, self.spec, self.role)

    def tables(self):
        return self.builder.make_table_specs(self.spec, self.policy, LANES)

    def act(self, address, num_items):
        """Writes `num_items`, and reads them as one element of the dataset."""

        def wait(reason, waited_seconds):
            assert waited_seconds < 20, reason

        adder = self.builder.make_adder(
            address, self.spec, self.policy, self.role, wait
        )
        acting = actor.PolicyActor(self.policy, self.spec, LANES, adder)
        loop = environment_loop.EnvironmentLoop(
            self.environment, acting, lambda episode: None
        )
        while adder.num_items < num_items:
            loop.step()
        adder.flush()
        adder.close()

    def samples(self, address):
        dataset = self.builder.make_dataset(
            [address], self.spec, self.policy, LANES, prefetch=False
        )
        return prefetching.Prefetcher(dataset, fakes.no_wait)

    def learner(self, samples, address):
        networks = self.builder.make_networks(self.spec)
        targets = self.builder.make_networks(self.spec)
        return self.builder.make_learner(
            networks, targets, self.spec, samples, [address]
        )


@pytest.mark.parametrize('name', NAMES)
def test_the_parts_of_an_agent_fit_each_other(name):
    parts = _Parts(name)
    with server.ReplayServer(parts.tables()) as replay:
        parts.act(replay.address, num_items=20 if name != 'impala' else 4)
        with parts.samples(replay.address) as samples:
            element = samples.element_spec
            # [updates per call, B]; an item may hold lanes, each a row of a batch.
            for part in element.info, element.data:
                assert len({tuple(leaf.shape[:2]) for leaf in tree.flatten(part)}) == 1
            assert all(leaf.shape.is_fully_defined() for leaf in tree.flatten(element))
            one = parts.learner(samples, replay.address)
            one.prepare()
            assert one._step is not None
            before = one.state()
            metrics = one.step()
            assert all(np.isfinite(value) for value in metrics.values()), metrics
            assert one.steps == element.info.key.shape[0]
            version, published = one.get_variables()
            assert version == one.steps
            wanted = [tuple(v.shape) for v in parts.policy.variables]
            assert [x.shape for x in published] == wanted
            after = one.state()
            changed = [
                key for key in before if not np.array_equal(before[key], after[key])
            ]
            assert any(key.startswith('online') for key in changed)
            other = parts.learner(samples, replay.address)
            other.restore(after)
            assert other.steps == one.steps
            for key, value in other.state().items():
                np.testing.assert_array_equal(value, after[key], err_msg=key)


@pytest.mark.parametrize('name', NAMES)
def test_a_config_refuses_actions_that_its_agent_cannot_give(name):
    wrong = 'catch' if name in ENVIRONMENTS else 'gym:Pendulum-v1'
    config = _config(name)
    spec = _spec(config, wrong)
    with pytest.raises(ValueError, match='action_spec must be') as light:
        config.check_spec(spec)
    with pytest.raises(ValueError) as heavy:
        config.make_builder().make_networks(spec)
    assert str(light.value) == str(heavy.value)


@pytest.mark.parametrize('name', NAMES)
def test_a_config_knows_how_large_its_replay_is(name):
    parts = _Parts(name)
    estimate = parts.config.replay_bytes(parts.spec)
    if name == 'impala':  # Its queue holds tens of unrolls.
        assert estimate is None
    else:
        assert estimate == sum(table.estimated_bytes for table in parts.tables())


@pytest.mark.parametrize('name', NAMES)
def test_a_policy_gives_what_its_extras_spec_says(name):
    parts = _Parts(name)
    state = parts.policy.initial_state(LANES)
    observation = tree.map_structure(
        lambda leaf: leaf, specs.zeros(parts.spec.observations, LANES)
    )
    output = parts.policy(observation, state)
    tree.assert_same_structure(parts.policy.extras_spec, output.extras)
    for spec, leaf in zip(
        tree.flatten(parts.policy.extras_spec), tree.flatten(output.extras), strict=True
    ):
        assert leaf.shape == (LANES, *spec.shape)
        assert leaf.dtype.as_numpy_dtype == spec.dtype
    tree.assert_same_structure(state, output.state)


@pytest.mark.parametrize('name', NAMES)
def test_every_field_of_a_config_is_read_and_documented(name):
    folder = _FOLDER / name
    source = ast.parse((folder / 'config.py').read_text())
    config = importlib.import_module(f'repertory.agents.{name}.config').Config
    assert dataclasses.is_dataclass(config) and issubclass(config, builder.AgentConfig)
    assert config.__dataclass_params__.frozen
    (body,) = [
        node.body
        for node in source.body
        if isinstance(node, ast.ClassDef) and node.name == 'Config'
    ]
    files = [*folder.glob('*.py'), *_FOLDER.parent.glob('components/*.py')]
    files += _FOLDER.parent.glob('launch/*.py')
    reading = '\n'.join(f.read_text() for f in files if f.name != 'config.py')
    reading += '\n'.join(
        ast.unparse(node).replace('self.', 'config.')
        for node in body
        # To check a field is not to use it.
        if isinstance(node, ast.FunctionDef) and node.name != '__post_init__'
    )
    for i, node in enumerate(body):
        if isinstance(node, ast.AnnAssign):
            field = node.target.id
            following = body[i + 1]
            assert isinstance(following, ast.Expr), f'{field} has no docstring'
            read = re.search(rf'(config|agent)\.{field}\b', reading)
            assert read, f'nothing reads {field}'


@pytest.mark.parametrize('name', NAMES)
def test_presets_and_a_readme_exist(name):
    presets = importlib.import_module(f'repertory.agents.{name}.config').PRESETS
    assert 'paper' in presets
    lines = (_FOLDER / name / 'README.md').read_text().splitlines()
    assert 10 < len(lines) <= 60
