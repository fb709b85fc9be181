"""IMPALA: the loss at episode ends, memory, the queue, and what is refused."""

import collections
import dataclasses
import threading

import dm_env.specs
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from repertory.agents.impala import builder, config, loss, networks
from repertory.components import actor, core, environment_loop, specs, types
from repertory.components.environments import vector
from repertory.components.losses import policy_gradient
from repertory.components.networks import heads, memory, observations, recurrent, torsos
from repertory.launch import checks, experiment, local
from repertory.replay import prefetching, server
from tests import fakes

FIRST, MID, LAST = types.StepType.FIRST, types.StepType.MID, types.StepType.LAST
ACTIONS = 2


def no_wait(reason, waited_seconds):
    assert waited_seconds < 20, reason


def scripted_lanes(num_lanes):
    # Lanes out of step, with truncated and terminated ends, and an episode of a step.
    episodes = [[1.0, -2.0], [0.5], [1, 2, 3, 4, 5, 6, 7], [0.1, 0.2, 0.3]]
    return vector.SerialVectorEnvironment(
        [
            fakes.ScriptedEnvironment(episodes[i:] + episodes[:i], [True, False] * 2)
            for i in range(num_lanes)
        ]
    )


def make_config(**changes):
    return config.Config(**{'hidden_sizes': (8,), 'core_size': 8, **changes})


class StubbornLSTM(recurrent.LSTM):
    """Begins each episode with 0.5 everywhere."""

    def initial_state(self, num_lanes):
        half = tf.fill([num_lanes, self.hidden_size], 0.5)
        return snt.LSTMState(half, half)


def unrolls_of(agent, environment, made, num_items):
    """Acts with the networks `made`; returns samples of `num_items` items in all."""
    one, lanes = builder.Builder(agent), environment.num_lanes
    policy = one.make_policy(made, environment.spec, core.Role(num_lanes=lanes, seed=3))
    tables = one.make_table_specs(environment.spec, policy, lanes)
    samples = []
    with server.ReplayServer(tables) as replay:
        role = core.Role(num_lanes=lanes)
        with one.make_adder(
            replay.address, environment.spec, policy, role, no_wait
        ) as adder:
            acting = actor.PolicyActor(policy, environment.spec, lanes, adder)
            loop = environment_loop.EnvironmentLoop(environment, acting, lambda _: None)
            dataset = iter(
                one.make_dataset(
                    [replay.address], environment.spec, policy, lanes, False
                )
            )
            items_per_call = agent.batch_size // lanes
            while len(samples) * items_per_call < num_items:
                for _ in range(agent.unroll_length):
                    loop.step()
                adder.flush()
                if adder.num_items >= (len(samples) + 1) * items_per_call:
                    samples.append(tree.map_structure(lambda x: x[0], next(dataset)))
    return samples


@pytest.mark.parametrize('core_name', ['none', 'lstm'])
def test_the_learners_unroll_gives_the_actors_logits(core_name):
    agent = make_config(core=core_name, batch_size=6, unroll_length=5)
    environment = scripted_lanes(3)
    made = builder.Builder(agent).make_networks(environment.spec)
    if core_name == 'lstm':
        network = memory.RecurrentNetwork(
            torsos.MLP([8]), StubbornLSTM(8), heads.PolicyValueHead(ACTIONS)
        )
        network.step(tf.zeros([1, 2]), network.initial_state(1))
        made = networks.Networks(policy_value=network)
    samples = unrolls_of(agent, environment, made, num_items=18)
    kinds = set()
    for sample in samples:
        rows = observations.time_major(sample.data.rows)
        logits, _ = made.policy_value.unroll(
            rows.observation, sample.data.state, rows.step_type == FIRST
        )
        np.testing.assert_allclose(logits, rows.extras['logits'], atol=1e-5)
        kinds.update(rows.step_type[0].numpy().tolist())
    assert kinds == {FIRST, MID, LAST}  # Some unrolls begin amid an episode.
    assert sum(sample.data.rows.step_type.shape[0] for sample in samples) >= 50


def test_unrolls_overlap_by_one_row_and_leave_none_out():
    agent = make_config(batch_size=4, unroll_length=3)
    environment = scripted_lanes(2)
    made = builder.Builder(agent).make_networks(environment.spec)
    tags = collections.defaultdict(list)
    for sample in unrolls_of(agent, environment, made, num_items=20):
        assert sample.info.key.shape == (2,)
        for i, unroll in enumerate(sample.data.rows.observation.numpy()):
            tags[i % 2].append(unroll)
    for unrolls in tags.values():
        for before, after in zip(unrolls, unrolls[1:], strict=False):
            np.testing.assert_array_equal(before[-1], after[0])
        rows = np.concatenate([unroll[:-1] for unroll in unrolls]).tolist()
        assert rows == sorted(rows) and len({tuple(row) for row in rows}) == len(rows)


def random_sample(step_types, seed=0, discounts=None):
    """Returns a sample of rows [B, T + 1] with random contents."""
    random = np.random.default_rng(seed)
    step_types = np.array(step_types, np.uint8)
    shape = step_types.shape
    reward = random.normal(size=shape).astype(np.float32)
    reward[step_types == FIRST] = 0
    rows = types.Row(
        observation=tf.constant(random.normal(size=(*shape, 3)), tf.float32),
        action=tf.constant(random.integers(ACTIONS, size=shape), tf.int32),
        reward=tf.constant(reward),
        discount=tf.ones(shape) if discounts is None else tf.constant(discounts),
        step_type=tf.constant(step_types),
        extras={
            'logits': tf.constant(random.normal(size=(*shape, ACTIONS)), tf.float32),
            'version': tf.zeros(shape, tf.int64),
        },
    )
    return types.Sample(info=None, data=types.Trajectory(rows, ()))


def replace_rows(sample, **fields):
    rows = sample.data.rows._replace(**fields)
    return sample._replace(data=sample.data._replace(rows=rows))


SPEC = specs.EnvironmentSpec(
    observations=dm_env.specs.Array((3,), np.float32),
    actions=dm_env.specs.DiscreteArray(ACTIONS),
    rewards=dm_env.specs.Array((), np.float32),
    discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
)


def loss_and_gradients(made, sample, agent):
    with tf.GradientTape() as tape:
        output = loss.vtrace_loss(made, made, sample, agent)
    variables = made.policy_value.trainable_variables
    return output.loss.numpy(), [
        g.numpy() for g in tape.gradient(output.loss, variables)
    ]


def assert_equal(first, second, rtol=0.0):
    tree.map_structure(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol),
        first,
        second,
    )


def transcribed_loss(made, sample, agent):
    """The paper's loss in plain loops, from the networks' outputs."""
    rows = tree.map_structure(lambda x: x.numpy(), sample.data.rows)
    total = 0.0
    for b in range(rows.reward.shape[0]):
        (logits, value), _ = made.policy_value.step(rows.observation[b], ())
        log_pi = tf.nn.log_softmax(logits).numpy().astype(float)
        log_mu = tf.nn.log_softmax(rows.extras['logits'][b]).numpy().astype(float)
        value = value.numpy().astype(float)
        length = rows.reward.shape[1] - 1
        target = value[length]  # v_{t+1}
        for t in reversed(range(length)):
            if rows.step_type[b, t] == LAST:
                target = value[t]
                continue
            action = rows.action[b, t]
            ratio = np.exp(log_pi[t, action] - log_mu[t, action])
            if agent.correction == 'none':
                ratio = 1.0
            reward, gamma = agent.reward_scale * rows.reward[b, t + 1], agent.discount
            if agent.reward_transform == 'clip':
                reward = min(max(reward, -1), 1)
            gamma *= rows.discount[b, t + 1]
            advantage = min(agent.clip_pg_rho, ratio) * (
                reward + gamma * target - value[t]
            )
            delta = min(agent.clip_rho, ratio) * (
                reward + gamma * value[t + 1] - value[t]
            )
            trace = agent.lambda_ * min(agent.clip_c, ratio)
            target = value[t] + delta + gamma * trace * (target - value[t + 1])
            entropy = -np.sum(np.exp(log_pi[t]) * log_pi[t])
            total += -log_pi[t, action] * advantage
            total += agent.baseline_cost * 0.5 * (target - value[t]) ** 2
            total -= agent.entropy_cost * entropy
    return total


STEP_TYPES = [
    [MID, MID, LAST, FIRST, MID, MID],
    [FIRST, LAST, FIRST, LAST, FIRST, MID],
    [LAST, FIRST, MID, MID, MID, LAST],
    [MID, MID, MID, MID, LAST, FIRST],
]
DISCOUNTS = np.where(np.array(STEP_TYPES) == LAST, [[0.0], [1.0], [0.0], [1.0]], 1.0)


@pytest.mark.parametrize(
    'changes',
    [
        {},
        {'correction': 'none', 'reward_transform': 'clip'},
        {'reward_scale': 3.0, 'reward_transform': 'clip'},
        {'clip_rho': 2.0, 'clip_c': 0.7, 'clip_pg_rho': 1.5, 'lambda_': 0.9},
        {'baseline_cost': 0.0, 'entropy_cost': 0.3, 'discount': 0.8},
    ],
)
def test_the_loss_is_the_papers_summed_over_steps_and_unrolls(changes):
    agent = make_config(**changes)
    made = builder.Builder(agent).make_networks(SPEC)
    sample = random_sample(STEP_TYPES, discounts=DISCOUNTS.astype(np.float32))
    actual = loss.vtrace_loss(made, made, sample, agent)
    np.testing.assert_allclose(
        actual.loss, transcribed_loss(made, sample, agent), rtol=1e-5
    )


def test_a_dummy_step_changes_no_loss_and_no_gradient():
    agent = make_config()
    made = builder.Builder(agent).make_networks(SPEC)
    sample = random_sample([[MID, MID, LAST, FIRST, MID]])
    rows = sample.data.rows
    expected = loss_and_gradients(made, sample, agent)
    changed = replace_rows(
        sample,
        action=tf.where(rows.step_type == LAST, 1 - rows.action, rows.action),
        reward=tf.where(rows.step_type == FIRST, 7.0, rows.reward),
        discount=tf.where(rows.step_type == FIRST, 0.3, rows.discount),
        extras={
            'logits': tf.where(
                (rows.step_type == LAST)[..., None], 5.0, rows.extras['logits']
            ),
            'version': rows.extras['version'],
        },
    )
    assert_equal(loss_and_gradients(made, changed, agent), expected)


@pytest.mark.parametrize('discount', [0.0, 1.0])
def test_an_unroll_across_an_episodes_end_is_its_two_parts(discount):
    agent = make_config()
    made = builder.Builder(agent).make_networks(SPEC)
    step_types = np.array([[MID, MID, LAST, FIRST, MID, MID]] * 2)
    discounts = np.where(step_types == LAST, discount, 1.0).astype(np.float32)
    whole = random_sample(step_types, discounts=discounts)

    def part(begin, end):
        cut = tree.map_structure(lambda x: x[:, begin:end], whole.data.rows)
        return loss_and_gradients(
            made, whole._replace(data=types.Trajectory(cut, ())), agent
        )

    parts = tree.map_structure(lambda x, y: x + y, part(0, 3), part(3, 6))
    assert_equal(loss_and_gradients(made, whole, agent), parts, rtol=2e-6)


@pytest.mark.parametrize('discount', [0.0, 1.0])
def test_a_truncated_episode_bootstraps_and_a_terminated_one_does_not(discount):
    agent = make_config()
    made = builder.Builder(agent).make_networks(SPEC)
    step_types = np.array([[MID, MID, LAST, FIRST, MID]])
    discounts = np.where(step_types == LAST, discount, 1.0).astype(np.float32)
    sample = random_sample(step_types, discounts=discounts)
    observation = sample.data.rows.observation
    other = tf.where((step_types == LAST)[..., None], 9.0, observation)
    before = loss_and_gradients(made, sample, agent)[0]
    after = loss_and_gradients(made, replace_rows(sample, observation=other), agent)[0]
    assert (before != after) == (discount == 1.0)


def test_a_reward_on_the_last_step_of_an_unroll_reaches_every_target():
    # On-policy, so that each target is the return: V-trace cuts nothing.
    agent = make_config(discount=1.0, entropy_cost=0.0)
    made = builder.Builder(agent).make_networks(SPEC)
    sample = random_sample([[MID] * 5])
    rows = sample.data.rows
    logits, value = made.policy_value.unroll(
        tf.transpose(rows.observation, [1, 0, 2]), (), tf.zeros([5, 1], tf.bool)
    )
    losses = []
    for reward in (0.0, 1.0):
        with_reward = replace_rows(
            sample,
            reward=tf.constant([[0.0, 0, 0, 0, reward]]),
            extras={**rows.extras, 'logits': tf.transpose(logits, [1, 0, 2])},
        )
        losses.append(loss.vtrace_loss(made, made, with_reward, agent).loss)
    # All four targets and advantages are 1 more than without.
    value = value[:, 0].numpy()
    log_pi = policy_gradient.log_probability(logits[:4, 0], rows.action[0, :4])
    expected = np.sum(0.5 * 0.5 * ((value[4] + 1 - value[:4]) ** 2))
    expected -= np.sum(0.5 * 0.5 * (value[4] - value[:4]) ** 2) + np.sum(log_pi)
    np.testing.assert_allclose(losses[1] - losses[0], expected, rtol=1e-4)


@pytest.mark.parametrize('pause', [1.5, pytest.param(10.0, marks=pytest.mark.slow)])
def test_actors_wait_while_the_learner_pauses_and_no_unroll_is_lost(pause):
    agent = make_config(batch_size=2, max_queue_size=8, unroll_length=4)
    one, spec = builder.Builder(agent), scripted_lanes(1).spec
    made = one.make_networks(spec)
    blocked = [threading.Event() for _ in range(2)]
    unrolls = 12
    steps = [0, 0]

    def act(index, address):
        def wait(reason, waited_seconds):
            assert '4 of 4 items' in reason
            assert waited_seconds < 60
            if waited_seconds >= pause:
                blocked[index].set()

        environment = scripted_lanes(2)
        role = core.Role(actor_index=index, num_actors=2, num_lanes=2, seed=index)
        policy = one.make_policy(made, environment.spec, role)
        with one.make_adder(address, spec, policy, role, wait) as adder:
            acting = actor.PolicyActor(policy, spec, 2, adder)
            loop = environment_loop.EnvironmentLoop(environment, acting, lambda _: None)
            while steps[index] < unrolls * agent.unroll_length + 1:
                loop.step()
                steps[index] += 1
            adder.flush()

    policy = one.make_policy(made, spec, core.Role(num_lanes=2))
    with server.ReplayServer(one.make_table_specs(spec, policy, 2)) as replay:
        actors = [
            threading.Thread(target=act, args=(i, replay.address)) for i in range(2)
        ]
        for thread in actors:
            thread.start()
        dataset = one.make_dataset([replay.address], spec, policy, 2, prefetch=True)
        with prefetching.Prefetcher(dataset, no_wait) as learner:
            for event in blocked:
                assert event.wait(timeout=40)
            statistics = replay.statistics()[0]
            assert statistics.size == 4
            # Three batches ahead, and two unrolls in each actor's hands.
            assert statistics.samples <= 3
            assert sum(steps) <= (4 + 3 + 2 * 2) * agent.unroll_length + 2
            samples = [next(learner) for _ in range(2 * unrolls)]
        for thread in actors:
            thread.join(timeout=40)
            assert not thread.is_alive()
        statistics = replay.statistics()[0]
    keys = np.concatenate([sample.info.key.numpy().ravel() for sample in samples])
    assert len(set(keys.tolist())) == len(keys) == 2 * unrolls
    assert (statistics.inserts, statistics.samples) == (2 * unrolls, 2 * unrolls)
    assert statistics.measured_samples_per_insert == 1.0
    # Both actors saw the same episodes, lane by lane: each unroll is there twice.
    begun = collections.Counter(
        tuple(unroll[0].tolist())
        for sample in samples
        for unroll in sample.data.rows.observation[0].numpy()
    )
    assert sum(begun.values()) == 2 * 2 * unrolls
    assert all(count % 2 == 0 for count in begun.values())


def test_a_run_in_one_thread_learns_each_unroll_once_and_resumes(tmp_path):
    # With several items in a batch: what was sampled ahead is gone at a resume.
    agent = make_config(batch_size=4, max_queue_size=12, unroll_length=5)

    def run(steps, resume):
        return local.run_experiment(
            experiment.ExperimentConfig(
                agent=agent,
                environment='catch',
                max_actor_steps=steps,
                evaluation_episodes=4,
                evaluation_period_seconds=1e3,
                logging=experiment.LoggingConfig(
                    tensorboard=False, period_seconds=1e-3
                ),
            ),
            experiment.Topology(envs_per_actor=1),
            tmp_path / 'run',
            resume,
        )

    first = run(225, resume=False)
    # 225 environment steps are 250 with the dummies: 50 unrolls, and no whole batch of
    # them was left.
    assert first.counts['learner_steps'] == 12
    second = run(450, resume=True)
    assert 23 <= second.counts['learner_steps'] <= 25


@pytest.mark.parametrize(
    'change, message',
    [
        ({'unroll_length': 0}, 'unroll_length must be >= 1, got 0'),
        ({'discount': 1.1}, r'discount must be in \[0, 1\], got 1.1'),
        ({'lambda_': -0.1}, r'lambda_ must be in \[0, 1\]'),
        ({'reward_scale': 0.0}, 'reward_scale must be positive'),
        ({'clip_rho': 0.0}, 'clip_rho must be > 0 or None'),
        ({'entropy_cost': -1.0}, 'entropy_cost must be >= 0'),
        ({'learning_rate': float('nan')}, 'learning_rate must be positive'),
        ({'learning_rate_decay_steps': 0}, 'learning_rate_decay_steps must be > 0'),
        ({'hidden_sizes': (0,)}, 'hidden_sizes must be >= 1'),
        ({'max_queue_size': 17}, r'max_queue_size must be >= .* = 18, got 17'),
        ({'updates_per_call': 3}, r'max_queue_size must be >= .* = 50, got 48'),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        config.Config(**change)


@pytest.mark.parametrize(
    'lanes, message',
    [
        (12, 'envs_per_actor must divide batch_size, got 12 and 16'),
        (32, 'envs_per_actor must divide batch_size'),
    ],
)
def test_lanes_that_do_not_fit_are_refused_before_anything_starts(lanes, message):
    run = experiment.ExperimentConfig(agent=config.Config(), environment='catch')
    with pytest.raises(ValueError, match=message):
        checks.check_together(run, experiment.Topology(envs_per_actor=lanes))
    queue = dataclasses.replace(run, agent=config.Config(max_queue_size=20))
    with pytest.raises(ValueError, match='max_queue_size must be >= .* = 48, got 20'):
        checks.check_together(queue, experiment.Topology(envs_per_actor=16))


def test_continuous_actions_are_refused_with_the_remedy():
    spec = dataclasses.replace(
        SPEC, actions=dm_env.specs.BoundedArray((2,), np.float32, -1, 1)
    )
    with pytest.raises(ValueError, match='take a continuous agent'):
        builder.Builder(config.Config()).make_networks(spec)


def test_the_paper_preset_has_the_papers_values():
    paper = dataclasses.asdict(config.PAPER)
    expected = {
        'unroll_length': 20,
        'batch_size': 32,
        'discount': 0.99,
        'clip_rho': 1.0,
        'clip_c': 1.0,
        'clip_pg_rho': 1.0,
        'lambda_': 1.0,
        'baseline_cost': 0.5,
        'entropy_cost': 0.01,
        'reward_transform': 'clip',
        'optimizer': 'rmsprop',
        'learning_rate': 6e-4,
        'optimizer_epsilon': 0.01,
        'max_gradient_norm': 40.0,
        'core': 'none',
    }
    assert {name: paper[name] for name in expected} == expected


def test_the_papers_optimizer_starts_at_one_and_decays_linearly():
    optimizer = builder._make_optimizer(
        dataclasses.replace(config.PAPER, learning_rate_decay_steps=4)
    )
    variable = tf.Variable([1.0])
    optimizer.initialize([variable])
    optimizer.apply([tf.constant([2.0])], [variable])
    # The first mean square is 0.99 * 1 + 0.01 * 2^2, and epsilon is inside the root.
    np.testing.assert_allclose(variable, [1 - 6e-4 * 2 / np.sqrt(1.03 + 0.01)], 1e-6)
    np.testing.assert_allclose(optimizer.learning_rate, 6e-4 * 3 / 4, rtol=1e-6)


@pytest.mark.parametrize('torso, num_variables', [('shallow', 6), ('deep', 32)])
def test_images_get_the_papers_convolutions(torso, num_variables):
    spec = dataclasses.replace(
        SPEC,
        observations=dm_env.specs.Array((84, 84, 4), np.uint8),
        actions=dm_env.specs.DiscreteArray(18),
    )
    agent = dataclasses.replace(config.PAPER, torso=torso)
    made = builder.Builder(agent).make_networks(spec)
    # Beside the two heads' weights and biases.
    assert len(made.policy_value.trainable_variables) == num_variables + 4


def test_a_memory_sees_the_previous_action_and_reward():
    agent = make_config(core='lstm')
    one = agent.wrap_environment(fakes.ScriptedEnvironment([[1.0, -5.0]], False))
    environment = vector.SerialVectorEnvironment([one])
    made = builder.Builder(agent).make_networks(environment.spec)
    network = made.policy_value
    before = {
        'observation': np.zeros([1, 2], np.float32),
        'action': np.zeros([1, ACTIONS], np.float32),
        'reward': np.zeros([1], np.float32),
    }

    def logits(**changes):
        return network.step({**before, **changes}, network.initial_state(1))[0].logits

    assert np.any(logits() != logits(action=np.array([[1.0, 0.0]], np.float32)))
    assert np.any(logits() != logits(reward=np.array([0.5], np.float32)))
    clipped = [logits(reward=np.array([r], np.float32)) for r in (1.0, 5.0)]
    np.testing.assert_array_equal(*clipped)
