"""R2D2: states as the actor had them, burn-in, padding, priorities, what is refused."""

import dataclasses

import dm_env.specs
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from baselines import r2d2_memory
from repertory.agents.r2d2 import builder, config, loss
from repertory.components import actor, core, environment_loop, specs, types
from repertory.components.environments import vector
from repertory.components.losses import sequences
from repertory.components.networks import heads, memory, recurrent, torsos
from repertory.launch import local
from repertory.replay import datasets, rows, server, tables
from repertory.replay.adders import sequence
from tests import fakes, golden

# Lengths below and above the trace; lanes that are out of step.
EPISODES = [[1.0, -2.0], [0.5], list(range(1, 24)), [0.1] * 7, [3.0, 2.0, 1.0] * 5]


def no_wait(reason, waited_seconds):
    assert waited_seconds < 20, reason


def make_config(**changes):
    return config.Config(
        **{
            'burn_in_length': 3,
            'trace_length': 6,
            'sequence_period': 4,
            'n_step': 3,
            'discount': 0.9,
            'batch_size': 16,
            'min_replay_size': 1,
            'max_replay_size': 500,
            'samples_per_insert': None,
            'priority_exponent': 1.0,
            'hidden_sizes': (8,),
            'lstm_size': 8,
            'dueling_size': 8,
            **changes,
        }
    )


class HalfState(recurrent.LSTM):
    """Begins each episode at 0.5."""

    def initial_state(self, num_lanes):
        return snt.LSTMState(*[tf.fill([num_lanes, self.hidden_size], 0.5)] * 2)


def scripted_lanes(agent):
    return vector.SerialVectorEnvironment(
        [
            agent.wrap_environment(
                fakes.ScriptedEnvironment(
                    EPISODES[i:] + EPISODES[:i], [True, False, True, False, True]
                )
            )
            for i in range(3)
        ]
    )


def run(environment, policy, adder, num_steps):
    acting = actor.PolicyActor(policy, environment.spec, environment.num_lanes, adder)
    loop = environment_loop.EnvironmentLoop(environment, acting, lambda episode: None)
    for _ in range(num_steps):
        loop.step()
    adder.flush()


def noisy(network, seed=0):
    """Moves a network away from its start, where values are nearly equal."""
    random = np.random.default_rng(seed)
    for variable in network.variables:
        variable.assign_add(random.normal(0.0, 0.3, variable.shape).astype(np.float32))
    return network


def make_row(observation, reward, step_type, discount=None, action=None):
    """Returns rows [1, T, ...] of one sequence."""
    length = len(step_type)
    if discount is None:
        discount = np.ones(length)
    if action is None:
        action = np.arange(length) % 2
    return types.Row(
        observation=tf.constant(np.asarray(observation, np.float32)[None]),
        action=tf.constant(np.asarray(action, np.int32)[None]),
        reward=tf.constant(np.asarray(reward, np.float32)[None]),
        discount=tf.constant(np.asarray(discount, np.float32)[None]),
        step_type=tf.constant(np.asarray(step_type, np.uint8)[None]),
        extras={},
    )


def make_sample(row, state):
    info = types.SampleInfo(
        key=tf.constant([1], tf.uint64),
        probability=tf.constant([0.1], tf.float64),
        table_size=tf.constant([10], tf.int64),
        priority=tf.constant([1.0], tf.float64),
    )
    return types.Sample(info, types.Trajectory(row, state))


@pytest.fixture
def networks():
    spec = specs.EnvironmentSpec(
        observations=dm_env.specs.Array((2,), np.float32),
        actions=dm_env.specs.DiscreteArray(2),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )
    make = builder.Builder(make_config(action_reward=False)).make_networks
    online, target = make(spec), make(spec)
    noisy(online.q, 1), noisy(target.q, 2)
    return online, target


def with_gradients(networks, sample, agent):
    online, target = networks
    with tf.GradientTape() as tape:
        output = loss.sequence_loss(online, target, sample, agent)
    gradients = tape.gradient(output.loss, online.q.trainable_variables)
    return [output.loss, output.priorities, *gradients, output.metrics['mean_q']]


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def random_state(seed=3):
    random = np.random.default_rng(seed)
    return snt.LSTMState(
        *(tf.constant(random.normal(size=(1, 8)), tf.float32) for _ in range(2))
    )


def test_the_learner_unrolls_to_what_the_actor_computed():
    agent = make_config()
    environment = scripted_lanes(agent)
    spec = environment.spec
    torso = torsos.ActionRewardTorso(torsos.MLP((8,)))
    network = memory.RecurrentNetwork(torso, HalfState(8), heads.DuelingHead(2, (8,)))
    zeros = tree.map_structure(tf.constant, specs.zeros(spec.observations, 1))
    network.step(zeros, network.initial_state(1))
    noisy(network)
    one = builder.Builder(agent)
    networks = builder.networks.Networks(q=network)
    policy = one.make_policy(networks, spec, core.Role(num_lanes=3, seed=1))
    # As the builder's, but that the row keeps what the actor computed.
    codec = rows.RowCodec(rows.make_row_spec(spec, policy.extras_spec, ['q_taken']))
    state_codec = rows.make_state_codec(policy.initial_state(1))
    length = agent.sequence_length
    signature = tables.signature(codec, length, state_codec)
    [table] = one.make_table_specs(spec, policy, 3)
    table = dataclasses.replace(table, signature=signature)
    with server.ReplayServer([table]) as replay:
        with sequence.SequenceAdder(
            replay.address, builder.TABLE, codec, 3, 6, 4, 3, no_wait, state_codec
        ) as adder:
            run(environment, policy, adder, 120)
            assert adder.num_items > 50
        dataset = datasets.make_trajectory_dataset(
            [replay.address], builder.TABLE, codec, length, 16, 1, False, state_codec
        )
        iterator = iter(dataset)
        samples = [next(iterator) for _ in range(12)]
    samples = tree.map_structure(lambda *x: np.concatenate([y[0] for y in x]), *samples)
    unique = np.unique(samples.info.key, return_index=True)[1]
    assert len(unique) >= 50
    data: types.Trajectory = tree.map_structure(lambda x: x[unique], samples.data)
    step_type = data.rows.step_type
    starts_inside = (step_type == types.StepType.MID)[:, 0]
    assert starts_inside.sum() >= 10 and (~starts_inside).sum() >= 10
    rows_ = tree.map_structure(lambda x: np.swapaxes(x, 0, 1), data.rows)
    reset = rows_.step_type == types.StepType.FIRST
    real = rows_.step_type != types.StepType.PADDING

    def errors(state, burn_in):
        q = network.unroll(rows_.observation, state, tf.constant(reset), burn_in)
        q = tf.gather(q, rows_.action[burn_in:], batch_dims=2).numpy()
        error = np.abs(q - rows_.extras['q_taken'][burn_in:])
        return np.where(real[burn_in:], error, 0.0)

    for burn_in in (0, 3):
        assert errors(data.state, burn_in).max() < 1e-5
    # What it must not be: the initial state inside an episode, another row's state.
    initial = network.initial_state(len(unique))
    wrong = errors(initial, 0)[0]
    assert np.median(wrong[starts_inside]) > 0.01
    assert wrong[~starts_inside].max() < 1e-5
    shifted = tree.map_structure(lambda x: np.roll(x, 1, axis=0), data.state)
    assert errors(shifted, 0).max() > 1e-3
    # Every episode began at the network's initial state, the second one as the first.
    for leaf in data.state:
        assert (leaf[~starts_inside] == 0.5).all()
    assert (
        len(np.unique(data.rows.observation['observation'][~starts_inside, 3, 0])) > 5
    )


def test_an_actors_priority_is_what_the_learner_would_compute():
    agent = make_config()
    environment = scripted_lanes(agent)
    one = builder.Builder(agent)
    role = core.Role(num_lanes=3, seed=5)
    networks = one.make_networks(environment.spec)
    noisy(networks.q)
    policy = one.make_policy(networks, environment.spec, role)
    specs_ = one.make_table_specs(environment.spec, policy, 3)
    with server.ReplayServer(specs_) as replay:
        with one.make_adder(
            replay.address, environment.spec, policy, role, no_wait
        ) as adder:
            run(environment, policy, adder, 80)
            assert adder.num_items > 40
        iterator = iter(
            one.make_dataset(
                [replay.address], environment.spec, policy, 3, prefetch=False
            )
        )
        keys = set()
        for _ in range(8):
            sample = tree.map_structure(lambda x: x[0], next(iterator))
            output = loss.sequence_loss(networks, networks, sample, agent)
            np.testing.assert_allclose(
                output.priorities, sample.info.priority, rtol=1e-4, atol=1e-5
            )
            keys.update(sample.info.key.numpy().tolist())
    assert len(keys) > 30


def test_the_ladder_runs_over_all_lanes_of_all_actors():
    agent = make_config(action_reward=False)
    one = builder.Builder(agent)
    environment = vector.SerialVectorEnvironment(
        [fakes.ScriptedEnvironment([[1.0]], False)]
    )
    networks = one.make_networks(environment.spec)

    def epsilons(**role):
        policy = one.make_policy(networks, environment.spec, core.Role(**role))
        return policy._epsilon.numpy().tolist()

    ladder = [
        epsilon
        for i in range(4)
        for epsilon in epsilons(actor_index=i, num_actors=4, num_lanes=2)
    ]
    expected = [0.4, 0.16, 0.064, 0.0256, 0.01024, 0.004096, 0.0016384, 0.00065536]
    np.testing.assert_allclose(ladder, expected, rtol=1e-6)
    np.testing.assert_allclose(epsilons(), [0.4])
    assert epsilons(evaluation=True, num_lanes=2) == [0.0, 0.0]


@pytest.mark.parametrize('burn_in', [0, 3])
@pytest.mark.parametrize('discount', [0.0, 1.0])
def test_padding_changes_nothing(networks, burn_in, discount):
    # An episode of 7 steps in a trace of 20, and the same in a trace of 7.
    random = np.random.default_rng(0)
    real, padded = burn_in + 8, burn_in + 21
    observation = random.normal(size=(real, 2))
    reward = random.normal(size=real)
    last = np.where(np.arange(real) == real - 1, discount, 1.0)
    step_type = [1] * (real - 1) + [2]
    state = random_state()
    expected = with_gradients(
        networks,
        make_sample(make_row(observation, reward, step_type, last), state),
        make_config(burn_in_length=burn_in, trace_length=7),
    )
    fill = padded - real
    for junk in (0.0, 7.0):
        row = make_row(
            np.concatenate([observation, np.full([fill, 2], junk)]),
            np.concatenate([reward, np.full(fill, junk)]),
            step_type + [3] * fill,
            np.concatenate([last, np.full(fill, 1.0 - junk / 7)]),
            np.concatenate([np.arange(real) % 2, np.full(fill, int(junk > 0))]),
        )
        agent = make_config(burn_in_length=burn_in, trace_length=20)
        assert_same(with_gradients(networks, make_sample(row, state), agent), expected)


def test_padding_before_an_episode_changes_nothing(networks):
    random = np.random.default_rng(0)
    observation, reward = random.normal(size=(7, 2)), random.normal(size=7)
    step_type = [0] + [1] * 6
    state = networks[0].q.initial_state(1)
    expected = with_gradients(
        networks,
        make_sample(make_row(observation, reward, step_type), state),
        make_config(burn_in_length=0),
    )
    row = make_row(
        np.concatenate([np.full([3, 2], 7.0), observation]),
        np.concatenate([np.full(3, 7.0), reward]),
        [3] * 3 + step_type,
        action=np.concatenate([[1, 1, 1], np.arange(7) % 2]),
    )
    # The state before the padding does not matter either.
    sample = make_sample(row, random_state())
    assert_same(with_gradients(networks, sample, make_config()), expected)


def test_burn_in_refreshes_each_networks_state_without_gradient(networks):
    random = np.random.default_rng(0)
    row = make_row(random.normal(size=(10, 2)), random.normal(size=10), [1] * 10)
    state = random_state()
    actual = with_gradients(networks, make_sample(row, state), make_config())

    def after_burn_in(network):
        states = state
        for t in range(3):
            _, states = network.q.step(row.observation[:, t], states)
        return tree.map_structure(tf.constant, tree.map_structure(np.array, states))

    online, target = networks
    trace = tree.map_structure(lambda x: x[:, 3:], row)
    values = {}
    with tf.GradientTape() as tape:
        for name, network in (('q', online), ('target_q', target)):
            reset = tf.zeros([1, 1], tf.bool)
            observation = tf.transpose(trace.observation, [1, 0, 2])
            values[name] = network.q.unroll(observation, after_burn_in(network), reset)
        error = sequences.double_q_td_errors(
            **values,
            a_tm1=tf.transpose(trace.action)[:-1],
            r_t=tf.transpose(trace.reward)[1:],
            discount_t=0.9 * tf.transpose(trace.discount)[1:],
            valid=tf.ones([6, 1], tf.bool),
            n=3,
            rescaling_epsilon=1e-3,
        )
        expected = 0.5 * tf.reduce_sum(error**2)
    gradients = tape.gradient(expected, online.q.trainable_variables)
    absolute = np.abs(error.numpy())
    priority = [0.9 * absolute.max() + 0.1 * absolute.mean() + 1e-6]
    mean_q = tf.reduce_mean(values['q'][:-1])
    assert_same(actual, [expected, priority, *gradients, mean_q])


def test_zero_state_starts_from_the_networks_initial_state(networks):
    random = np.random.default_rng(0)
    row = make_row(random.normal(size=(10, 2)), random.normal(size=10), [1] * 10)
    agent = make_config(zero_state=True)
    for network in networks:
        network.q._core = _half_state_like(network.q._core)
    sample = make_sample(row, random_state())
    initial = networks[0].q.initial_state(1)
    assert (initial.hidden.numpy() == 0.5).all()
    expected = with_gradients(networks, make_sample(row, initial), make_config())
    assert_same(with_gradients(networks, sample, agent), expected)


def _half_state_like(core_):
    half = HalfState(8)
    half.step(tf.zeros([1, 8]), half.initial_state(1))
    for variable, other in zip(half.variables, core_.variables, strict=True):
        variable.assign(other)
    return half


@pytest.mark.parametrize(
    ('step_type', 'trained'),
    [
        ([1] * 7, [1, 1, 1, 1, 1, 1]),
        ([1] * 6 + [2], [1, 1, 1, 1, 1, 1]),
        ([0, 1, 2, 3, 3, 3, 3], [1, 1, 0, 0, 0, 0]),
        ([1, 2, 3, 3, 3, 3, 3], [1, 0, 0, 0, 0, 0]),
    ],
)
def test_each_real_step_of_the_trace_is_trained_and_no_other(step_type, trained):
    q = tf.constant(np.random.default_rng(0).normal(size=(7, 1, 2)), tf.float32)
    trace = make_row(np.zeros((7, 2)), np.ones(7), step_type)
    trace = tree.map_structure(lambda x: x[0][:, tf.newaxis], trace)
    with tf.GradientTape() as tape:
        tape.watch(q)
        td = loss.td_errors(q, q + 1.0, trace, make_config())
        total = tf.reduce_sum(td.error**2)
    gradient = np.abs(tape.gradient(total, q).numpy()).max(axis=(1, 2)) > 0
    np.testing.assert_array_equal(gradient[:-1], np.array(trained, bool))
    assert not gradient[-1]


@pytest.mark.parametrize('truncated', [False, True])
def test_the_last_reward_counts_and_only_truncation_bootstraps(truncated):
    # Zero values, but 10 at the final observation; reward 2 with it.
    q, target_q = np.zeros((7, 1, 2)), np.zeros((7, 1, 2))
    target_q[3:] = sequences.rescaling.rescale(tf.constant(10.0)).numpy()
    reward = [0, 0, 0, 2.0, 0, 0, 0]
    discount = [1, 1, 1, float(truncated), 1, 1, 1]
    trace = make_row(np.zeros((7, 2)), reward, [0, 1, 1, 2, 3, 3, 3], discount)
    trace = tree.map_structure(lambda x: x[0][:, tf.newaxis], trace)
    td = loss.td_errors(
        tf.constant(q, tf.float32),
        tf.constant(target_q, tf.float32),
        trace,
        make_config(rescaling_epsilon=1e-3),
    )
    target = sequences.rescaling.unrescale(td.error[:3, 0]).numpy()
    last = 2.0 + 0.9 * 10.0 * truncated
    np.testing.assert_allclose(target, [0.81 * last, 0.9 * last, last], rtol=1e-4)
    assert not td.error[3:].numpy().any()


@pytest.mark.parametrize('case', golden.cases('r2d2', 'transformed_n_step'))
def test_loss_and_priorities_are_those_of_existing_libraries(case):
    if case.params['soft_policy']:
        pytest.skip('a soft policy takes no argmax')
    inputs, params = case.inputs, case.params
    length, batch = inputs['rewards'].shape

    class Fixed:
        def __init__(self, values):
            self.q, self._values = self, values

        def unroll(self, observation, state, reset, burn_in):
            return self._values

    def rows_of(x):
        """Puts the rewards of steps on the rows that they lead to."""
        return np.concatenate([np.zeros((1, batch), np.float32), x]).T

    row = types.Row(
        observation=tf.zeros([batch, length + 1]),
        action=tf.constant(inputs['actions'].T),
        reward=tf.constant(rows_of(inputs['rewards'])),
        discount=tf.constant(rows_of(inputs['discounts'])),
        step_type=tf.ones([batch, length + 1], tf.uint8),
        extras={},
    )
    sample = make_sample(row, ())
    probability = tf.constant(inputs['probabilities'], tf.float64)
    sample = sample._replace(info=sample.info._replace(probability=probability))
    agent = make_config(
        burn_in_length=0,
        trace_length=length,
        sequence_period=1,
        n_step=params['n'],
        discount=1.0,
        max_priority_weight=params['eta'],
        importance_sampling_exponent=params['is_exponent'],
        rescaling_epsilon=params['tx_eps'],
        priority_epsilon=1e-12,
    )
    q = tf.constant(inputs['qs'])
    with tf.GradientTape() as tape:
        tape.watch(q)
        output = loss.sequence_loss(
            Fixed(q), Fixed(tf.constant(inputs['target_qs'])), sample, agent
        )
    case.check(
        mean_weighted_loss=output.loss,
        priorities=output.priorities,
        grad_qs=tape.gradient(output.loss, q),
    )


def test_previous_action_and_reward_are_inputs_without_a_wrapper_by_hand():
    agent = make_config()
    environment = agent.wrap_environment(fakes.ScriptedEnvironment([[3.0, 4.0]], False))
    assert agent.wrap_environment(environment) is environment
    first, second = environment.reset(), environment.step(np.int32(1))
    assert not first.observation['action'].any() and first.observation['reward'] == 0
    np.testing.assert_array_equal(second.observation['action'], [0, 1])
    assert second.observation['reward'] == 3.0
    plain = dataclasses.replace(agent, action_reward=False)
    inside = fakes.ScriptedEnvironment([[1.0]], False)
    assert plain.wrap_environment(inside) is inside
    spec = specs.make_environment_spec(inside)
    with pytest.raises(ValueError, match='must be that of ObservationActionReward'):
        builder.Builder(agent).make_networks(spec)


def test_a_learner_step_moves_parameters_and_copies_the_target(networks):
    online, target = networks
    random = np.random.default_rng(0)
    row = make_row(random.normal(size=(10, 2)), random.normal(size=10), [1] * 10)
    sample = tree.map_structure(lambda x: x[None], make_sample(row, random_state()))
    agent = make_config(target_update_period=2, action_reward=False)
    traces = []
    unroll = online.q.unroll
    online.q.unroll = lambda *args, **kwargs: (
        traces.append(1) or unroll(*args, **kwargs)
    )
    one = builder.Builder(agent).make_learner(
        online, target, None, iter([sample] * 3), []
    )
    one._update_priorities = None
    before = [v.numpy() for v in online.q.variables]
    for copied in (False, True, False):
        metrics = one.step()
        assert np.isfinite(list(metrics.values())).all()
        assert metrics['valid_fraction'] == 1.0
        same = [
            np.array_equal(a, b)
            for a, b in zip(online.q.variables, target.q.variables, strict=True)
        ]
        assert all(same) == copied
    moved = [np.abs(a - b).max() for a, b in zip(online.q.variables, before)]
    assert min(moved) > 0
    assert len(traces) == 1


@pytest.mark.parametrize(
    'change, message',
    [
        ({'trace_length': 0}, 'trace_length must be >= 1, got 0'),
        ({'burn_in_length': -1}, 'burn_in_length must be >= 0'),
        ({'sequence_period': 17}, 'sequence_period must be <= trace_length, got 17'),
        ({'discount': 1.1}, r'discount must be in \[0, 1\], got 1.1'),
        ({'max_priority_weight': -0.1}, r'max_priority_weight must be in \[0, 1\]'),
        ({'epsilon': 0.0}, r'epsilon must be in \(0, 1\]'),
        ({'min_replay_size': 30_000}, 'never become ready'),
        ({'learning_rate': float('nan')}, 'learning_rate must be positive'),
        ({'rescaling_epsilon': 0.0}, 'rescaling_epsilon must be positive'),
        ({'max_gradient_norm': 0.0}, 'max_gradient_norm must be > 0 or None'),
        ({'samples_per_insert': -1.0}, 'samples_per_insert must be > 0'),
        ({'hidden_sizes': (0,)}, 'hidden_sizes must be >= 1'),
        ({'batch_size': 30_000}, 'batch_size must be <= max_replay_size'),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        config.Config(**change)


def test_continuous_actions_are_refused_with_the_remedy():
    spec = specs.EnvironmentSpec(
        observations=dm_env.specs.Array((3,), np.float32),
        actions=dm_env.specs.BoundedArray((2,), np.float32, -1, 1),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )
    with pytest.raises(ValueError, match='take a continuous agent'):
        builder.Builder(config.Config()).make_networks(spec)


def test_the_paper_preset_has_the_papers_values():
    paper = dataclasses.asdict(config.PAPER)
    expected = {
        'burn_in_length': 40,
        'trace_length': 80,
        'sequence_period': 40,
        'zero_state': False,
        'action_reward': True,
        'n_step': 5,
        'discount': 0.997,
        'rescaling_epsilon': 1e-3,
        'batch_size': 64,
        'max_replay_size': 100_000,
        'priority_exponent': 0.9,
        'importance_sampling_exponent': 0.6,
        'max_priority_weight': 0.9,
        'lstm_size': 512,
        'dueling_size': 512,
        'learning_rate': 1e-4,
        'optimizer_epsilon': 1e-3,
        'max_gradient_norm': 40.0,
        'target_update_period': 2_500,
        'epsilon': 0.4,
        'epsilon_alpha': 7.0,
        'variable_update_period': 400,
    }
    assert {name: paper[name] for name in expected} == expected


def test_images_get_convolutions_beside_action_and_reward():
    spec = specs.EnvironmentSpec(
        observations={
            'observation': dm_env.specs.Array((84, 84, 4), np.uint8),
            'action': dm_env.specs.Array((18,), np.float32),
            'reward': dm_env.specs.Array((), np.float32),
        },
        actions=dm_env.specs.DiscreteArray(18),
        rewards=dm_env.specs.Array((), np.float32),
        discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
    )
    networks = builder.Builder(config.PAPER).make_networks(spec)
    shapes = [tuple(v.shape) for v in networks.q.trainable_variables]
    assert (8, 8, 4, 32) in shapes and (3136 + 18 + 1, 4 * 512) in shapes
    zeros = tree.map_structure(tf.constant, specs.zeros(spec.observations, 2))
    values, _ = networks.q.step(zeros, networks.q.initial_state(2))
    assert values.shape == (2, 18)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    'variant',
    [
        pytest.param('stored_state', marks=pytest.mark.ci_slow),
        pytest.param('zero_state', marks=pytest.mark.slow),
        pytest.param('feed_forward', marks=pytest.mark.slow),
    ],
)
def test_memory_needs_stored_states_and_burn_in(tmp_path, variant):
    make = r2d2_memory.VARIANTS[variant]
    experiment, topology = make(seed=0)
    # No wrong answer in an evaluation: at less, one query can still be half wrong.
    experiment = dataclasses.replace(experiment, target_return=5.999)
    local.run_experiment(experiment, topology, tmp_path / 'run')
    accuracy = r2d2_memory.measure(tmp_path / 'run')['accuracy']
    if variant == 'stored_state':
        assert min(accuracy.values()) >= 0.9, accuracy
    elif variant == 'zero_state':
        assert max(accuracy[40], accuracy[48]) <= 0.7, accuracy
    else:
        assert max(accuracy.values()) <= 0.4, accuracy
