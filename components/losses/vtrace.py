"""V-trace: value targets and advantages from another policy's actions."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class VTrace(NamedTuple):
    """Without gradients, [T, B]; where a step is not valid, V(s_t) and 0."""

    target: tf.Tensor  # v_t
    advantage: tf.Tensor  # of the policy gradient


def vtrace(
    log_rho_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    v_tm1: tf.Tensor,
    bootstrap_value: tf.Tensor,
    valid: tf.Tensor | None = None,
    lambda_: float = 1.0,
    clip_rho: float | None = 1.0,
    clip_c: float | None = 1.0,
    clip_pg_rho: float | None = 1.0,
) -> VTrace:
    """Returns V-trace targets and policy-gradient advantages.

    v_t = V_t + delta_t + discount_t c_t (v_{t+1} - V_{t+1}), with
    delta_t = rho_t (r_t + discount_t V_{t+1} - V_t), rho_t = min(clip_rho, pi / mu)
    and c_t = lambda min(clip_c, pi / mu);
    advantage_t = min(clip_pg_rho, pi / mu) (r_t + discount_t v_{t+1} - V_t).
    A step that is not valid has rho = c = 0: nothing flows through it.

    Reference: Espeholt et al. (2018), "IMPALA", sec. 4.1 (with remark 2 for lambda)
    and 4.2, https://arxiv.org/abs/1802.01561.

    Args:
        log_rho_tm1: float [T, B]; log pi(a_t | s_t) - log mu(a_t | s_t).
        r_t: float [T, B]; entry t belongs to the step from s_t to s_{t+1}.
        discount_t: float [T, B]; gamma times the environment's discount.
        v_tm1: float [T, B]; V(s_0) ... V(s_{T-1}).
        bootstrap_value: float [B]; V(s_T).
        valid: bool [T, B]; False where s_t ended an episode. None if all are valid.
        lambda_: in [0, 1]; 1 in the paper's experiments.
        clip_rho: rho-bar; the paper's analysis wants it no less than `clip_c`. None
            for no clipping, as for the other two.
        clip_c: c-bar.
        clip_pg_rho: rho-bar of the policy gradient.

    Raises:
        ValueError: if `lambda_` or a threshold is outside its range, or the shapes do
            not fit, or T is not known when the graph is traced.
    """
    _check(lambda_, clip_rho, clip_c, clip_pg_rho)
    if valid is None:
        valid = tf.ones_like(v_tm1, tf.bool)
    if v_tm1.shape[0] is None:
        raise ValueError(f'v_tm1 must have a known length, got {v_tm1.shape}.')
    sequences = (log_rho_tm1, r_t, discount_t, v_tm1, valid)
    tf.debugging.assert_shapes(
        [*((x, ('T', 'B')) for x in sequences), (bootstrap_value, ('B',))],
        message='all must be [T, B] and bootstrap_value [B]',
    )
    ratio = tf.exp(log_rho_tm1)
    ratio = tf.where(valid, ratio, tf.zeros_like(ratio))
    v_t = tf.concat([v_tm1[1:], bootstrap_value[tf.newaxis]], axis=0)
    delta = _clip(ratio, clip_rho) * (r_t + discount_t * v_t - v_tm1)
    carry = discount_t * lambda_ * _clip(ratio, clip_c)
    correction = _backward_sums(delta, carry)  # v_t - V_t
    target = v_tm1 + correction
    target_t = tf.concat([target[1:], bootstrap_value[tf.newaxis]], axis=0)
    advantage = _clip(ratio, clip_pg_rho) * (r_t + discount_t * target_t - v_tm1)
    return VTrace(tf.stop_gradient(target), tf.stop_gradient(advantage))


def _clip(ratio: tf.Tensor, threshold: float | None) -> tf.Tensor:
    return ratio if threshold is None else tf.minimum(ratio, threshold)


def _backward_sums(x: tf.Tensor, carry: tf.Tensor) -> tf.Tensor:
    """Returns y_t = x_t + carry_t y_{t+1}, with y_T = 0, in log2 T rounds.

    After a round, x_t holds the sum of twice as many terms as before.
    """
    span, length = 1, x.shape[0]
    while span < length:
        ahead = [[0, span], [0, 0]]
        x += carry * tf.pad(x[span:], ahead)
        carry *= tf.pad(carry[span:], ahead)
        span *= 2
    return x


def _check(
    lambda_: float,
    clip_rho: float | None,
    clip_c: float | None,
    clip_pg_rho: float | None,
) -> None:
    if not 0.0 <= lambda_ <= 1.0:
        raise ValueError(f'lambda_ must be in [0, 1], got {lambda_}.')
    thresholds = {'clip_rho': clip_rho, 'clip_c': clip_c, 'clip_pg_rho': clip_pg_rho}
    for name, threshold in thresholds.items():
        if threshold is not None and threshold <= 0.0:
            raise ValueError(
                f'{name} must be > 0, got {threshold}; None turns clipping off.'
            )
