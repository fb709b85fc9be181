"""IMPALA's loss: the paper's, at episode ends and at the ends of unrolls."""

import numpy as np
import pytest
import tensorflow as tf
import tree

from repertory.agents.impala import builder, loss
from repertory.components import types
from repertory.components.losses import policy_gradient
from tests.agents import impala_fakes

FIRST, MID, LAST = types.StepType.FIRST, types.StepType.MID, types.StepType.LAST


def random_sample(step_types, seed=0, discounts=None):
    """Returns a sample of rows [B, T + 1] with random contents."""
    random = np.random.default_rng(seed)
    step_types = np.array(step_types, np.uint8)
    shape = step_types.shape
    reward = random.normal(size=shape).astype(np.float32)
    reward[step_types == FIRST] = 0
    rows = types.Row(
        observation=tf.constant(random.normal(size=(*shape, 3)), tf.float32),
        action=tf.constant(random.integers(impala_fakes.ACTIONS, size=shape), tf.int32),
        reward=tf.constant(reward),
        discount=tf.ones(shape) if discounts is None else tf.constant(discounts),
        step_type=tf.constant(step_types),
        extras={
            'logits': tf.constant(
                random.normal(size=(*shape, impala_fakes.ACTIONS)), tf.float32
            ),
            'version': tf.zeros(shape, tf.int64),
        },
    )
    return types.Sample(info=None, data=types.Trajectory(rows, ()))


def replace_rows(sample, **fields):
    rows = sample.data.rows._replace(**fields)
    return sample._replace(data=sample.data._replace(rows=rows))


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
    agent = impala_fakes.make_config(**changes)
    made = builder.Builder(agent).make_networks(impala_fakes.SPEC)
    sample = random_sample(STEP_TYPES, discounts=DISCOUNTS.astype(np.float32))
    actual = loss.vtrace_loss(made, made, sample, agent)
    # The steps' losses, of about 1 each, may cancel in their sum.
    np.testing.assert_allclose(
        actual.loss, transcribed_loss(made, sample, agent), rtol=1e-5, atol=1e-5
    )


def test_a_dummy_step_changes_no_loss_and_no_gradient():
    agent = impala_fakes.make_config()
    made = builder.Builder(agent).make_networks(impala_fakes.SPEC)
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
    agent = impala_fakes.make_config()
    made = builder.Builder(agent).make_networks(impala_fakes.SPEC)
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
    agent = impala_fakes.make_config()
    made = builder.Builder(agent).make_networks(impala_fakes.SPEC)
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
    agent = impala_fakes.make_config(discount=1.0, entropy_cost=0.0)
    made = builder.Builder(agent).make_networks(impala_fakes.SPEC)
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
