"""Returns over several steps, with episode ends and padding.

A step is valid if it is a real transition. The dummy step that starts at an
episode's final observation, and the padding after it, are not: a window stops there
and bootstraps from the final observation, whatever the dummies hold.
"""

from __future__ import annotations

import tensorflow as tf


def n_step_return(
    reward: tf.Tensor,
    discount: tf.Tensor,
    valid: tf.Tensor,
    gamma: float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a window's discounted reward R and the discount D of its bootstrap.

    R = sum_k (prod_{j<k} gamma d_j) r_k and D = prod_j gamma d_j over the valid
    steps; the first reward is undiscounted.

    Reference: Sutton and Barto (2018), "Reinforcement Learning", sec. 7.1.

    Args:
        reward: float [..., n]; received for the window's steps.
        discount: float [..., n]; the environment's, 0 where it terminated.
        valid: bool [..., n]; False for padding, which counts as no step.
        gamma: the agent's discount per step, in [0, 1].

    Returns:
        R and D, float [...].

    Raises:
        ValueError: if `gamma` is outside [0, 1] or the shapes differ.
    """
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f'gamma must be in [0, 1], got {gamma}.')
    tf.debugging.assert_shapes(
        [(x, (..., 'n')) for x in (reward, discount, valid)],
        message='reward, discount and valid must have the same shape [..., n]',
    )
    factor = tf.where(valid, gamma * discount, tf.ones_like(discount))
    reward = tf.where(valid, reward, tf.zeros_like(reward))
    before = tf.math.cumprod(factor, axis=-1, exclusive=True)
    return (
        tf.reduce_sum(before * reward, axis=-1),
        tf.reduce_prod(factor, axis=-1),
    )


def n_step_targets(
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    v_t: tf.Tensor,
    n: int,
    valid: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the n-step target of each step of a sequence.

    G_t = sum_{k<m} (prod_{j<k} d_{t+j}) r_{t+k} + (prod_{j<m} d_{t+j}) V(s_{t+m}),
    with m the distance to the next step that is not valid, to the sequence's end, or
    n, whichever is least. So a truncated episode bootstraps from its final
    observation, also if further episodes follow.

    Args:
        r_t: float [T, B]; entry t belongs to the step from s_t to s_{t+1}.
        discount_t: float [T, B]; gamma times the environment's discount.
        v_t: float [T, B]; entry t is V(s_{t+1}).
        n: steps before the bootstrap, at least 1.
        valid: bool [T, B]; None if all steps are.

    Returns:
        float [T, B]; 0 where the step is not valid. Gradients are not stopped.

    Raises:
        ValueError: if `n` is less than 1 or the shapes differ.
    """
    if n < 1:
        raise ValueError(f'n must be >= 1, got {n}.')
    if valid is None:
        valid = tf.ones_like(r_t, tf.bool)
    tf.debugging.assert_shapes(
        [(x, ('T', 'B')) for x in (r_t, discount_t, v_t, valid)],
        message='r_t, discount_t, v_t and valid must have the same shape [T, B]',
    )
    length = tf.shape(r_t)[0]
    tail = [[0, n - 1], [0, 0]]
    r_t, discount_t, valid = (tf.pad(x, tail) for x in (r_t, discount_t, valid))
    # V(s_t); a window never falls back on its own first state.
    v_tm1 = tf.pad(v_t, [[1, n - 1], [0, 0]])  # [T + n, B]
    target = v_tm1[n:]
    for k in reversed(range(n)):
        window = slice(k, k + length)
        stop = v_tm1[window] if k else tf.zeros_like(target)
        step = r_t[window] + discount_t[window] * target
        target = tf.where(valid[window], step, stop)
    return target
