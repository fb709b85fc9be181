"""The actor: rows, recurrent state, dtypes."""

import dataclasses
import gc
import threading

import dm_env.specs
import numpy as np
import pytest
import tensorflow as tf
import tree

from repertory.components import actor, core, policies, specs, types, variables


class Recorder(core.Adder):
    """Keeps the rows it is given."""

    num_items = 0

    def __init__(self):
        self.rows = []

    def add(self, row):
        self.rows.append(row)

    def flush(self):
        pass

    def close(self):
        pass


class CountingPolicy(policies.Policy):
    """Its state counts calls from 0.5; the action tells the observation."""

    variables = ()
    extras_spec = {'count': dm_env.specs.Array((), np.float32)}

    def __init__(self, dtype=tf.int32):
        self._dtype = dtype

    def initial_state(self, num_lanes):
        return {'count': tf.fill([num_lanes], 0.5)}

    def act(self, observation, state, draws):
        count = state['count'] + 1.0
        action = tf.cast(observation[:, 0], self._dtype)
        return policies.PolicyOutput(action, {'count': count}, {'count': count})


SPEC = specs.EnvironmentSpec(
    observations=dm_env.specs.Array((1,), np.float32),
    actions=dm_env.specs.DiscreteArray(100),
    rewards=dm_env.specs.Array((), np.float32),
    discounts=dm_env.specs.BoundedArray((), np.float32, 0.0, 1.0),
)


def timestep(step_types, value):
    lanes = len(step_types)
    return types.TimeStep(
        step_type=np.array(step_types, np.uint8),
        reward=np.full(lanes, value, np.float32),
        discount=np.ones(lanes, np.float32),
        observation=np.full((lanes, 1), value, np.float32),
    )


def act(step_types_by_time, records=False):
    """Runs the counting policy over given step types; returns the rows written."""
    recorder = Recorder()
    one = actor.PolicyActor(CountingPolicy(), SPEC, 2, recorder)
    one.observe_first(timestep(step_types_by_time[0], 0))
    for t, step_types in enumerate(step_types_by_time[1:]):
        action = one.select_action(np.full((2, 1), t, np.float32))
        if records:
            one.record(action)
            assert len(recorder.rows) == t + 1
        one.observe(action, timestep(step_types, t + 1))
    return recorder.rows


def test_state_is_reset_only_in_the_lane_that_begins():
    rows = act([(0, 0), (1, 2), (2, 0), (0, 1), (1, 1)])
    before = [row.extras['state']['count'].tolist() for row in rows]
    # The state stored with a row is the one before it; lane 1 begins anew at row 2.
    assert before == [[0.5, 0.5], [1.5, 1.5], [2.5, 0.5], [0.5, 1.5]]
    after = [row.extras['count'].tolist() for row in rows]
    assert after == [[1.5, 1.5], [2.5, 2.5], [3.5, 1.5], [1.5, 2.5]]


def test_a_row_joins_a_step_with_the_action_taken_from_it():
    rows = act([(0, 0), (1, 1), (1, 1)])
    assert [row.action.tolist() for row in rows] == [[0, 0], [1, 1]]
    assert [row.reward.tolist() for row in rows] == [[0, 0], [1, 1]]
    assert [row.observation[0, 0] for row in rows] == [0, 1]
    assert [row.step_type.tolist() for row in rows] == [[0, 0], [1, 1]]


def test_rows_recorded_before_the_next_step_is_known_are_the_same():
    step_types = [(0, 0), (1, 2), (2, 0), (0, 1), (1, 1)]
    early, late = act(step_types, records=True), act(step_types)
    assert len(early) == len(late) == 4
    for one, other in zip(early, late, strict=True):
        tree.map_structure(np.testing.assert_array_equal, one, other)


def test_a_row_tells_the_version_of_the_parameters_that_acted():
    class Source:
        version = 4

        def get_variables(self):
            return self.version, []

    recorder, source = Recorder(), Source()
    client = variables.VariableClient(source, [], update_period=1, background=False)
    one = actor.PolicyActor(CountingPolicy(), SPEC, 2, recorder, client)
    one.observe_first(timestep((0, 0), 0))
    for t in range(3):
        action = one.select_action(np.zeros((2, 1), np.float32))
        # Newer parameters come between acting and recording.
        one.update()
        one.observe(action, timestep((1, 1), t + 1))
        source.version += t
    versions = [row.extras['version'].tolist() for row in recorder.rows]
    assert versions == [[-1, -1], [4, 4], [4, 4]]
    assert recorder.rows[0].extras['version'].dtype == np.int64


def test_an_action_of_a_wrong_dtype_is_refused():
    one = actor.PolicyActor(CountingPolicy(tf.int64), SPEC, 2)
    one.observe_first(timestep((0, 0), 0))
    with pytest.raises(ValueError, match=r'int32\[2\].*got int64\[2\]'):
        one.select_action(np.zeros((2, 1), np.float32))


def test_acting_before_the_first_step_is_refused():
    one = actor.PolicyActor(CountingPolicy(), SPEC, 2)
    with pytest.raises(RuntimeError, match='observe_first must be called'):
        one.select_action(np.zeros((2, 1), np.float32))


def test_the_policy_is_traced_once():
    traces = []

    class Traced(CountingPolicy):
        def act(self, observation, state, draws):
            traces.append(1)
            return super().act(observation, state, draws)

    one = actor.PolicyActor(Traced(), SPEC, 2)
    one.observe_first(timestep((0, 0), 0))
    for t in range(20):
        action = one.select_action(np.zeros((2, 1), np.float32))
        one.observe(action, timestep((1, 1), t))
    assert len(traces) == 1


def test_a_second_action_of_one_step_is_refused():
    one = actor.PolicyActor(CountingPolicy(), SPEC, 2)
    one.observe_first(timestep((0, 0), 0))
    one.select_action(np.zeros((2, 1), np.float32))
    with pytest.raises(RuntimeError, match='observe must be called between two calls'):
        one.select_action(np.zeros((2, 1), np.float32))


class PausedPolicy(CountingPolicy):
    """Reads its variable twice, and tells the difference as the count.

    Between the two it waits for `event`, and notes whether that came.
    """

    def __init__(self, seconds):
        super().__init__()
        self._seconds = seconds
        self.paused, self.event = threading.Event(), threading.Event()
        self.came = []
        self.variables = [tf.Variable([0.0, 0.0])]

    def _pause(self, value):
        self.paused.set()
        self.came.append(self.event.wait(self._seconds))
        return value

    def act(self, observation, state, draws):
        [variable] = self.variables
        early = tf.numpy_function(self._pause, [variable.read_value()], tf.float32)
        with tf.control_dependencies([early]):
            late = variable.read_value()
        late.set_shape([2])
        output = super().act(observation, state, draws)
        return output._replace(extras={'count': late - early})


def test_parameters_stay_while_a_step_is_chosen():
    policy, recorder = PausedPolicy(seconds=0.3), Recorder()

    class Source:
        version = 0

        def get_variables(self):
            self.version += 1
            return self.version, [np.full(2, self.version, np.float32)]

    client = variables.VariableClient(Source(), policy.variables, 1, background=False)
    one = actor.PolicyActor(policy, SPEC, 2, recorder, client)
    one.observe_first(timestep((0, 0), 0))
    for t in range(3):
        assert policy.paused.wait(timeout=20)
        policy.paused.clear()
        one.update()  # While the call is between the two.
        policy.event.set()
        policy.event.clear()
        one.observe(one.select_action(None), timestep((1, 1), t + 1))
    one.close()
    assert not any(policy.came)  # `update` has waited for them.
    assert [row.extras['count'].tolist() for row in recorder.rows] == [[0, 0]] * 3
    assert [row.extras['version'][0] for row in recorder.rows] == [-1, 1, 2]


def test_a_step_is_chosen_while_the_one_before_is_recorded():
    policy = PausedPolicy(seconds=20)
    policy.event.set()

    class Waiting(Recorder):
        def add(self, row):
            super().add(row)
            policy.event.set()  # Which the choice of the next step waits for.

    recorder = Waiting()
    one = actor.PolicyActor(policy, SPEC, 2, recorder)
    one.observe_first(timestep((0, 0), 0))
    for t in range(2):
        action = one.select_action(None)
        policy.event.clear()
        one.observe(action, timestep((1, 1), t + 1))
    one.close()
    assert policy.came == [True] * 3
    assert [row.observation[0, 0] for row in recorder.rows] == [0, 1]


def test_an_actor_is_left_while_its_policy_calls_python():
    policy = PausedPolicy(seconds=0.3)
    one = actor.PolicyActor(policy, SPEC, 2)
    one.observe_first(timestep((0, 0), 0))
    assert policy.paused.wait(timeout=20)
    del one
    gc.collect()  # It would wait for ever, were it not settled before.
    assert policy.came == [False]


def test_an_action_of_another_structure_is_refused():
    class Swapped(CountingPolicy):
        def act(self, observation, state, draws):
            output = super().act(observation, state, draws)
            return output._replace(action=(output.action, output.action))

    number = dm_env.specs.DiscreteArray(100)
    spec = dataclasses.replace(SPEC, actions={'gas': number, 'steer': number})
    with pytest.raises(ValueError, match='action must have the structure of'):
        actor.PolicyActor(Swapped(), spec, 2)


def test_what_goes_wrong_in_the_policy_is_raised_where_the_action_is_read():
    class Failing(CountingPolicy):
        def act(self, observation, state, draws):
            observation = tf.debugging.check_numerics(observation, 'seen')
            return super().act(observation, state, draws)

    one = actor.PolicyActor(Failing(), SPEC, 2)
    one.observe_first(timestep((0, 0), 0))
    one.observe(one.select_action(None), timestep((1, 1), np.nan))
    with pytest.raises(tf.errors.InvalidArgumentError, match='seen'):
        one.select_action(None)


@pytest.mark.parametrize('epsilon', [0.0, 0.3, 1.0])
def test_epsilon_greedy_draws_for_each_lane_by_its_own_chance(epsilon):
    lanes, actions = 20_000, 4
    q_values = tf.tile([[0.0, 1.0, 0.0, 0.0]], [lanes, 1])
    uniform = tf.random.Generator.from_seed(3).uniform([lanes, 2])
    chosen = policies.epsilon_greedy(q_values, tf.fill([lanes], epsilon), uniform)
    counts = np.bincount(chosen.numpy(), minlength=actions) / lanes
    expected = np.full(actions, epsilon / actions)
    expected[1] += 1 - epsilon
    np.testing.assert_allclose(counts, expected, atol=0.012)
    # Neighbouring lanes do not share draws.
    same = np.mean(chosen.numpy()[1:] == chosen.numpy()[:-1])
    np.testing.assert_allclose(same, np.sum(expected**2), atol=0.015)
