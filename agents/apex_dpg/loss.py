"""The losses of Ape-X DPG: one of the critic, one of the policy."""

from __future__ import annotations

import tensorflow as tf

from repertory.agents.apex_dpg import config as apex_dpg_config
from repertory.components import learner, types
from repertory.components.losses import policy_gradient, value
from repertory.components.networks import control
from repertory.replay import priorities


def dpg_loss(
    online: control.Networks,
    target: control.Networks,
    sample: types.Sample,
    config: apex_dpg_config.Config,
) -> learner.LossOutput:
    """Returns the losses of critic and policy, and the priorities |TD error| + epsilon.

    critic: mean_i w_i (G_i - q(s_i, a_i))^2 / 2, with
    G_i = R_i + D_i q(s'_i, pi(s'_i)) of the target networks.
    policy: its gradient is the mean of -dq(s_i, a)/da at a = pi(s_i), each element
    clipped, times dpi(s_i). Observation features are constants to it.

    Reference: Horgan et al. (2018), "Distributed Prioritized Experience Replay",
    sec. 3.2, https://arxiv.org/abs/1803.00933.

    Args:
        online, target: the trained networks and their copy.
        sample: Transitions [B, ...].
        config: gives the clip and the exponents.
    """
    transition: types.Transition = sample.data
    features = online.observation(transition.observation)  # [B, F]
    next_features = target.observation(transition.next_observation)
    q_tm1 = online.critic((features, transition.action))  # [B]
    q_t = target.critic((next_features, target.policy(next_features)))
    returns = config.reward_scale * transition.reward + transition.discount * q_t
    td_error = tf.stop_gradient(returns) - q_tm1
    magnitude = tf.abs(tf.stop_gradient(td_error))
    weights = priorities.importance_weights(
        sample.info.probability,
        config.importance_sampling_exponent,
        sample.info.least_probability,
    )
    policy_loss = policy_gradient.deterministic_policy_loss(
        online.policy,
        lambda features, action: online.critic((features, action)),
        features,
        max_abs=config.max_abs_action_gradient,
    )
    return learner.LossOutput(
        loss={
            'critic': tf.reduce_mean(weights * value.squared(td_error)),
            'policy': policy_loss,
        },
        priorities=magnitude + config.priority_epsilon,
        metrics={
            'mean_q': tf.reduce_mean(q_tm1),
            'mean_abs_td_error': tf.reduce_mean(magnitude),
            'mean_importance_weight': tf.reduce_mean(weights),
        },
    )
