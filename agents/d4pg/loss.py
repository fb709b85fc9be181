"""The losses of D4PG and D3PG: one of the critic, one of the policy."""

from __future__ import annotations

import tensorflow as tf

from repertory.agents.d4pg import config as d4pg_config
from repertory.components import learner, types
from repertory.components.losses import categorical, policy_gradient, value
from repertory.components.networks import control
from repertory.replay import priorities


def d4pg_loss(
    online: control.Networks,
    target: control.Networks,
    sample: types.Sample,
    config: d4pg_config.Config,
) -> learner.LossOutput:
    """Returns the losses of critic and policy, and what the critic's errors are.

    critic: mean_i w_i CE(projection of R_i + D_i Z(s'_i, pi(s'_i)), Z(s_i, a_i)) with
    the target networks at s'_i; for a scalar critic mean_i w_i TD_i^2 / 2.
    policy: its gradient is the mean of -dq(s_i, a)/da at a = pi(s_i), clipped, times
    dpi(s_i); q is the mean of a distribution. Observation features are constants to it.

    Priorities are the divergence of target from prediction, or the absolute TD error.

    Reference: Barth-Maron et al. (2018), "Distributed Distributional Deterministic
    Policy Gradients", algorithm 1, https://arxiv.org/abs/1804.08617.

    Args:
        online, target: the trained networks and their copy.
        sample: Transitions [B, ...].
        config: gives the critic's kind, the clips and the exponents.
    """
    transition: types.Transition = sample.data
    features = online.observation(transition.observation)  # [B, F]
    next_features = target.observation(transition.next_observation)
    r_t = config.reward_scale * transition.reward
    critic = _categorical if config.critic == 'categorical' else _scalar
    errors, magnitudes, metrics = critic(
        online.critic((features, transition.action)),
        r_t,
        transition.discount,
        target.critic((next_features, target.policy(next_features))),
    )  # [B] each
    if config.sampler == 'prioritized':
        weights = priorities.importance_weights(
            sample.info.probability,
            config.importance_sampling_exponent,
            sample.info.least_probability,
        )
        errors = weights * errors

    def action_value(features: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        output = online.critic((features, action))
        return output.mean() if config.critic == 'categorical' else output

    policy_loss = policy_gradient.deterministic_policy_loss(
        online.policy,
        action_value,
        features,
        max_norm=config.max_action_gradient_norm,
        max_abs=config.max_abs_action_gradient,
    )
    return learner.LossOutput(
        loss={'critic': tf.reduce_mean(errors), 'policy': policy_loss},
        priorities=magnitudes + config.priority_epsilon,
        metrics=metrics,
    )


def _categorical(z_tm1, r_t, discount_t, z_t):
    td = categorical.categorical_td(
        z_tm1.logits, r_t, discount_t, z_t.logits, z_tm1.support
    )
    below, above = categorical.mass_outside(r_t, discount_t, z_t.logits, z_tm1.support)
    metrics = {
        'mean_q': tf.reduce_mean(z_tm1.mean()),
        'mean_divergence': tf.reduce_mean(td.divergence),
        'mass_below_vmin': below,
        'mass_above_vmax': above,
    }
    # Of equal distributions rounding can make it negative.
    return td.cross_entropy, tf.maximum(td.divergence, 0.0), metrics


def _scalar(q_tm1, r_t, discount_t, q_t):
    td_error = tf.stop_gradient(r_t + discount_t * q_t) - q_tm1
    magnitude = tf.abs(tf.stop_gradient(td_error))
    metrics = {
        'mean_q': tf.reduce_mean(q_tm1),
        'mean_abs_td_error': tf.reduce_mean(magnitude),
    }
    return value.squared(td_error), magnitude, metrics
