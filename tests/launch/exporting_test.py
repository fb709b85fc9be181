import collections
import json
import subprocess
import sys

import dm_env
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
from dm_env import specs as dm_specs

import repertory
from repertory.agents import r2d2
from repertory.components import policies, specs
from repertory.launch import experiment, exported, exporting

_Pair = collections.namedtuple('_Pair', ['first', 'second'])


def _environment_spec(observations, actions):
    return specs.EnvironmentSpec(
        observations=observations,
        actions=actions,
        rewards=dm_specs.Array((), np.float32),
        discounts=dm_specs.BoundedArray((), np.float32, 0, 1),
    )


_GREEDY_SPEC = _environment_spec(
    dm_specs.Array((4,), np.float32, 'position'),
    dm_specs.DiscreteArray(3, np.int32, 'action'),
)


class _GreedyPolicy(policies.Policy):
    """Is greedy in a linear value; without memory."""

    def __init__(self, seed=0):
        self._w = tf.Variable(
            np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32)
        )

    @property
    def variables(self):
        return [self._w]

    @property
    def extras_spec(self):
        return {}

    def act(self, observation, state, draws):
        values = tf.matmul(observation, self._w)
        action = tf.argmax(values, axis=-1, output_type=tf.int32)
        return policies.PolicyOutput(action, {}, state)


class _CountingPolicy(policies.Policy):
    """Counts its calls from a learned start; takes and gives nests of any dtype."""

    spec = _environment_spec(
        {'z': (dm_specs.Array((), np.float32),), 'a': dm_specs.Array((2,), np.uint8)},
        [dm_specs.Array((), np.int64), {'b': dm_specs.Array((2,), np.float32)}],
    )

    def __init__(self):
        self._start = tf.Variable(10.0)
        self._generator = tf.random.Generator.from_seed(1)

    @property
    def variables(self):
        return [self._start]

    @property
    def extras_spec(self):
        return {}

    def initial_state(self, num_lanes):
        return _Pair(
            tf.fill([num_lanes], self._start), {'n': tf.zeros([num_lanes, 2], tf.int64)}
        )

    def act(self, observation, state, draws):
        noise = 0.0 * self._generator.normal([])
        count = state.first + 1.0 + noise
        action = [
            tf.cast(count + observation['z'][0], tf.int64),
            {'b': tf.cast(observation['a'], tf.float32)},
        ]
        return policies.PolicyOutput(action, {}, _Pair(count, state.second))


class _CorridorEnvironment(dm_env.Environment):
    """Pays 1 for action 2; an episode is as long as its number, from 1."""

    def __init__(self, seed):
        self._random = np.random.default_rng(seed)
        self._episode, self.closed = 0, False

    def _observation(self):
        return self._random.normal(size=4).astype(np.float32)

    def reset(self):
        self._episode, self._t = self._episode + 1, 0
        return dm_env.restart(self._observation())

    def step(self, action):
        assert np.shape(action) == ()
        self._t += 1
        step = dm_env.termination if self._t == self._episode else dm_env.transition
        return step(np.float32(action == 2), self._observation())

    def observation_spec(self):
        return _GREEDY_SPEC.observations

    def action_spec(self):
        return _GREEDY_SPEC.actions

    def close(self):
        self.closed = True


def test_an_exported_policy_acts_as_the_policy_for_any_number_of_lanes(tmp_path):
    policy = _GreedyPolicy()
    exporting.export_policy(tmp_path / 'policy', policy, _GREEDY_SPEC)
    loaded = exported.load_policy(tmp_path / 'policy')
    assert loaded.initial_state(2) == ()
    for lanes in (1, 7):
        observation = np.random.default_rng(lanes).normal(size=(lanes, 4))
        action, state = loaded(observation)  # float64, of the same kind.
        expected = policy(tf.constant(observation, tf.float32), ()).action
        np.testing.assert_array_equal(action, expected)
        assert action.dtype == np.int32
        assert state == ()


def test_it_repeats_its_action_in_a_clean_process_without_the_agent(tmp_path):
    policy = _GreedyPolicy()
    exporting.export_policy(tmp_path / 'policy', policy, _GREEDY_SPEC)
    script = (
        'import sys, json, numpy as np\n'
        'from repertory.launch import exported\n'
        'policy = exported.load_policy(sys.argv[1])\n'
        'x = np.linspace(-1, 1, 4, dtype=np.float32)[None]\n'
        'actions = {int(policy(x)[0][0]) for _ in range(100)}\n'
        "assert not {'reverb', 'launchpad', 'sonnet'} & set(sys.modules)\n"
        "assert not any(m.startswith('repertory.agents') for m in sys.modules)\n"
        'print(json.dumps(sorted(actions)))\n'
    )
    output = subprocess.run(
        [sys.executable, '-c', script, str(tmp_path / 'policy')],
        check=True,
        capture_output=True,
        timeout=100,
    ).stdout
    x = tf.constant(np.linspace(-1, 1, 4, dtype=np.float32)[None])
    assert json.loads(output) == [int(policy(x, ()).action[0])]
    assert [path.name for path in tmp_path.iterdir()] == ['policy']


def test_tensorflow_alone_loads_it(tmp_path):
    policy = _CountingPolicy()
    exporting.export_policy(
        tmp_path / 'policy', policy, policy.spec, metadata={'agent': 'counting'}
    )
    script = (
        'import json, pathlib, sys\n'
        'import tensorflow as tf\n'
        'folder = pathlib.Path(sys.argv[1])\n'
        'record = json.loads((folder / "repertory.json").read_text())\n'
        'assert record["observation_leaves"] == ["a", "z.0"], record\n'
        'assert record["action_leaves"] == ["0", "1.b"], record\n'
        'assert record["metadata"] == {"agent": "counting"}, record\n'
        'policy = tf.saved_model.load(str(folder))\n'
        'state = [leaf[None] for leaf in policy.initial_state]\n'
        'observation = [tf.constant([[1, 2]], tf.uint8), tf.constant([5.0])]\n'
        'action, state = policy.act(observation, state)\n'
        'serve = policy.signatures["serving_default"]\n'
        'named = {f"state_{i}": leaf for i, leaf in enumerate(state)}\n'
        'for i, leaf in enumerate(observation): named[f"observation_{i}"] = leaf\n'
        'again = serve(**named)\n'
        'loaded = {name.partition(".")[0] for name in sys.modules}\n'
        'assert not loaded & {"repertory", "sonnet", "reverb", "dm_env"}, loaded\n'
        'print(int(action[0][0]), int(again["action_0"][0]))\n'
    )
    output = subprocess.run(
        [sys.executable, '-c', script, str(tmp_path / 'policy')],
        check=True,
        capture_output=True,
        timeout=100,
    ).stdout
    assert output.split() == [b'16', b'17']  # 10 + 5 + the number of the call.


def test_a_policy_is_loaded_by_its_runs_folder(tmp_path):
    metadata = {'environment': 'corridor'}
    exporting.export_policy(
        tmp_path / 'run' / 'policy', _GreedyPolicy(), _GREEDY_SPEC, metadata=metadata
    )
    loaded = repertory.load_policy(tmp_path / 'run')
    assert loaded.metadata == metadata
    assert loaded(np.ones((2, 4)))[0].shape == (2,)


def test_what_a_policy_sees_is_described():
    described = exporting.describe(
        experiment.ExperimentConfig(
            agent=r2d2.Config(), environment='catch?frame_stack=2'
        )
    )
    assert described['agent'] == 'r2d2'
    assert described['environment'] == 'catch?frame_stack=2'
    wrappers = ['ObservationActionReward', 'SinglePrecision', 'FrameStack', 'Catch']
    assert described['preprocessing'] == wrappers


def test_nests_memory_and_generators_survive(tmp_path):
    policy = _CountingPolicy()
    exporting.export_policy(tmp_path / 'p', policy, policy.spec, [np.float32(20.0)])
    loaded = exported.load_policy(tmp_path / 'p')
    observation = {
        'a': np.array([[1, 2], [3, 4], [5, 6]], np.uint8),
        'z': (np.array([0.0, 100.0, 200.0], np.float32),),
    }
    state = loaded.initial_state(3)
    for calls in (1, 2):
        action, state = loaded(observation, state)
        np.testing.assert_array_equal(action[0], 20 + calls + np.array([0, 100, 200]))
        np.testing.assert_array_equal(action[1]['b'], observation['a'])
        assert action[0].dtype == np.int64
    np.testing.assert_array_equal(loaded.initial_state(1)[0], [20.0])


def test_an_epsilon_greedy_policy_explores_each_lane(tmp_path):
    network = snt.Linear(3)
    network(tf.zeros([1, 4]))
    policy = policies.EpsilonGreedyPolicy(network, [0.5], _GREEDY_SPEC.actions, 0)
    exporting.export_policy(tmp_path / 'p', policy, _GREEDY_SPEC)
    actions, _ = exported.load_policy(tmp_path / 'p')(np.ones((3000, 4)))
    greedy = np.argmax(network(tf.ones([1, 4]))[0])
    # Half of the lanes are greedy, and a third of the others by chance.
    assert np.mean(actions == greedy) == pytest.approx(2 / 3, abs=0.05)


def test_a_policy_for_a_fixed_number_of_lanes_is_refused(tmp_path):
    network = snt.Linear(3)
    network(tf.zeros([1, 4]))
    policy = policies.EpsilonGreedyPolicy(network, [0.5] * 16, _GREEDY_SPEC.actions, 0)
    with pytest.raises(ValueError, match='the number of lanes open, got 16'):
        exporting.export_policy(tmp_path / 'p', policy, _GREEDY_SPEC)


def test_specs_come_back(tmp_path):
    exporting.export_policy(tmp_path / 'p', _GreedyPolicy(), _GREEDY_SPEC)
    loaded = exported.load_policy(tmp_path / 'p')
    assert loaded.observation_spec == _GREEDY_SPEC.observations
    assert (loaded.action_spec.minimum, loaded.action_spec.maximum) == (0, 2)
    assert loaded.action_spec.dtype == np.int32


def test_a_second_export_replaces_the_first(tmp_path):
    (tmp_path / 'p.new').mkdir()
    x = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    for seed in (1, 2):
        policy = _GreedyPolicy(seed)
        exporting.export_policy(tmp_path / 'p', policy, _GREEDY_SPEC)
        np.testing.assert_array_equal(
            exported.load_policy(tmp_path / 'p')(x)[0], policy(x, ()).action
        )
    assert [path.name for path in tmp_path.iterdir()] == ['p']


@pytest.mark.parametrize(
    'observation, message',
    [
        (np.zeros(4, np.float32), r"observation must have shape \['N', 4\], got \[4\]"),
        (np.zeros((1, 4), complex), 'observation must be float32, got complex128'),
        ({'x': np.zeros((1, 4))}, r'observation must be float32\[4\] with a batch'),
    ],
)
def test_an_observation_that_does_not_fit_is_named(tmp_path, observation, message):
    exporting.export_policy(tmp_path / 'p', _GreedyPolicy(), _GREEDY_SPEC)
    loaded = exported.load_policy(tmp_path / 'p')
    with pytest.raises(ValueError, match=message):
        loaded(observation)


def test_a_folder_without_a_policy_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match='must be an exported policy, got'):
        exported.load_policy(tmp_path)


def test_variables_must_be_the_policys(tmp_path):
    with pytest.raises(ValueError, match='variables must be 1 arrays .* got 2'):
        exporting.export_policy(tmp_path / 'p', _GreedyPolicy(), _GREEDY_SPEC, [0, 0])


def test_evaluate_returns_what_a_loop_by_hand_does(tmp_path):
    policy = _GreedyPolicy()
    exporting.export_policy(tmp_path / 'p', policy, _GREEDY_SPEC)
    loaded = exported.load_policy(tmp_path / 'p')
    made = []

    def make(seed):
        made.append(_CorridorEnvironment(seed))
        return made[-1]

    returns = exported.evaluate(loaded, make, episodes=6, seed=5)
    assert made[0].closed
    environment = _CorridorEnvironment(5)
    for expected in returns:
        total, step = 0.0, environment.reset()
        while not step.last():
            x = tf.constant(step.observation[None])
            step = environment.step(policy(x, ()).action.numpy()[0])
            total += step.reward
        assert total == expected
    assert len(set(returns)) > 1
    with pytest.raises(ValueError, match='episodes must be >= 1, got 0'):
        exported.evaluate(loaded, make, episodes=0, seed=5)
