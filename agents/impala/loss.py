"""The loss of IMPALA: V-trace actor-critic on unrolls."""

from __future__ import annotations

import tensorflow as tf

from repertory.agents.impala import config as impala_config
from repertory.agents.impala import networks
from repertory.components import learner, types
from repertory.components.losses import policy_gradient, rewards, vtrace
from repertory.components.networks import observations


def vtrace_loss(
    online: networks.Networks,
    target: networks.Networks,
    sample: types.Sample,
    config: impala_config.Config,
) -> learner.LossOutput:
    """Returns the sum over all valid steps of policy, baseline and entropy losses.

    L = sum -log pi(a_t | s_t) A_t + c_V / 2 (v_t - V(s_t))^2 - c_H H(pi(. | s_t)),
    with the targets v_t and advantages A_t of V-trace, through which no gradient
    flows. The step that begins at an episode's final observation is a dummy: it adds
    nothing, and nothing flows through it.

    Reference: Espeholt et al. (2018), "IMPALA", sec. 4.2,
    https://arxiv.org/abs/1802.01561.

    Args:
        online: the trained networks.
        target: not used.
        sample: Trajectories of rows [B, T + 1, ...], with the actors' `logits` and
            parameter `version` among the extras.
        config: gives costs, clips and the correction.
    """
    del target
    rows: types.Row = observations.time_major(sample.data.rows)  # [T + 1, B, ...]
    logits, value = online.policy_value.unroll(
        rows.observation,
        sample.data.state,
        reset=tf.equal(rows.step_type, types.StepType.FIRST),
    )
    logits, action = logits[:-1], rows.action[:-1]  # [T, B, ...]
    valid = tf.not_equal(rows.step_type[:-1], types.StepType.LAST)
    log_rho = policy_gradient.log_probability(logits, action)
    log_rho -= policy_gradient.log_probability(rows.extras['logits'][:-1], action)
    targets = _targets(log_rho, rows, value, valid, config)
    policy = policy_gradient.policy_gradient(logits, action, targets.advantage)
    baseline = 0.5 * tf.square(targets.target - value[:-1])
    entropy = policy_gradient.entropy(logits)
    loss = policy + config.baseline_cost * baseline - config.entropy_cost * entropy
    mask = tf.cast(valid, tf.float32)
    steps = {
        'policy_loss': policy,
        'baseline_loss': baseline,
        'entropy': entropy,
        'mean_value': value[:-1],
        'mean_rho': tf.exp(log_rho),
    }
    return learner.LossOutput(
        loss=tf.reduce_sum(mask * loss),
        priorities=tf.zeros([0]),
        metrics={name: _mean(x, mask) for name, x in steps.items()},
        versions=rows.extras['version'],
    )


def _targets(
    log_rho: tf.Tensor,
    rows: types.Row,
    value: tf.Tensor,
    valid: tf.Tensor,
    config: impala_config.Config,
) -> vtrace.VTrace:
    transform = rewards.TRANSFORMS[config.reward_transform]
    return vtrace.vtrace(
        log_rho if config.correction == 'vtrace' else tf.zeros_like(log_rho),
        r_t=transform(config.reward_scale * rows.reward[1:]),
        discount_t=config.discount * rows.discount[1:],
        v_tm1=value[:-1],
        bootstrap_value=value[-1],
        valid=valid,
        lambda_=config.lambda_,
        clip_rho=config.clip_rho,
        clip_c=config.clip_c,
        clip_pg_rho=config.clip_pg_rho,
    )


def _mean(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    return tf.math.divide_no_nan(tf.reduce_sum(mask * x), tf.reduce_sum(mask))
