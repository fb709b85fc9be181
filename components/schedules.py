"""Values that change over actors or learner steps; no TensorFlow is imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repertory.components import core


def epsilon_ladder(
    base: float, alpha: float, actor_index: int, num_actors: int
) -> float:
    """Returns the exploration rate that one actor keeps for the whole run.

    epsilon_i = base^(1 + alpha i / (N - 1)), and `base` if N = 1.

    Reference: Horgan et al. (2018), "Distributed Prioritized Experience Replay",
    sec. 4.1, https://arxiv.org/abs/1803.00933.

    Args:
        base: the largest rate, in [0, 1]; 0.4 in the paper.
        alpha: how far the ladder reaches down, at least 0; 7 in the paper.
        actor_index: i, in [0, num_actors).
        num_actors: N, at least 1.

    Returns:
        A probability.

    Raises:
        ValueError: if an argument is outside its range.
    """
    if not 0.0 <= base <= 1.0:
        raise ValueError(f'base must be in [0, 1], got {base}.')
    if alpha < 0.0:
        raise ValueError(f'alpha must be >= 0, got {alpha}.')
    if not 0 <= actor_index < num_actors:
        raise ValueError(
            f'actor_index must be in [0, num_actors), got {actor_index} with '
            f'num_actors {num_actors}.'
        )
    if num_actors == 1:
        return base
    return base ** (1.0 + alpha * actor_index / (num_actors - 1))


def lane_epsilons(base: float, alpha: float, role: core.Role) -> list[float]:
    """Returns `epsilon_ladder` of each lane of an actor.

    The ladder runs over all lanes of all actors: a lane is what the paper calls an
    actor.
    """
    return [
        epsilon_ladder(
            base,
            alpha,
            role.actor_index * role.num_lanes + lane,
            role.num_actors * role.num_lanes,
        )
        for lane in range(role.num_lanes)
    ]


def linear(start: float, end: float, steps: int) -> Callable[[Any], Any]:
    """Returns a function of the step: linear from `start` to `end`, then constant.

    Args:
        start: value at step 0.
        end: value from step `steps` on.
        steps: learner steps, at least 1.

    Returns:
        A function of a number, array or tensor.

    Raises:
        ValueError: if `steps` is less than 1.
    """
    if steps < 1:
        raise ValueError(f'steps must be >= 1, got {steps}.')

    def value(step: Any) -> Any:
        fraction = step / steps
        # min(fraction, 1) in operators that numbers, arrays and tensors share.
        fraction = (fraction + 1.0 - abs(fraction - 1.0)) / 2.0
        return start + (end - start) * fraction

    return value
