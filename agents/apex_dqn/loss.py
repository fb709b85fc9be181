"""The loss of Ape-X DQN: n-step double Q-learning on prioritized transitions."""

from __future__ import annotations

import tensorflow as tf

from repertory.agents.apex_dqn import config as apex_dqn_config
from repertory.agents.apex_dqn import networks
from repertory.components import learner, types
from repertory.components.losses import value
from repertory.replay import priorities


def double_q_loss(
    online: networks.Networks,
    target: networks.Networks,
    sample: types.Sample,
    config: apex_dqn_config.Config,
) -> learner.LossOutput:
    """Returns mean_i w_i l(G_i - Q(s_i, a_i)) and the priorities |G_i - Q| + epsilon.

    G_i = R_i + D_i Q(s'_i, argmax_a Q(s'_i, a; online); target), with R_i and D_i the
    window's discounted reward and the full discount of its bootstrap.

    Reference: Horgan et al. (2018), "Distributed Prioritized Experience Replay",
    sec. 3.1, https://arxiv.org/abs/1803.00933.

    Args:
        online, target: the trained networks and their copy.
        sample: Transitions [B, ...].
        config: gives the loss's shape and the exponents.
    """
    transition: types.Transition = sample.data
    q_tm1 = online.q(transition.observation)  # [B, A]
    td_error = value.double_q_td_error(
        q_tm1,
        transition.action,
        transition.reward,
        transition.discount,
        online.q(transition.next_observation),
        target.q(transition.next_observation),
    )  # [B]
    weights = priorities.importance_weights(
        sample.info.probability,
        config.importance_sampling_exponent,
        sample.info.least_probability,
    )
    shape = value.huber if config.loss == 'huber' else value.squared
    return learner.LossOutput(
        loss=tf.reduce_mean(weights * shape(td_error)),
        priorities=tf.abs(td_error) + config.priority_epsilon,
        metrics={
            'mean_q': tf.reduce_mean(q_tm1),
            'mean_abs_td_error': tf.reduce_mean(tf.abs(td_error)),
            'mean_importance_weight': tf.reduce_mean(weights),
        },
    )
