"""Sizes of networks that several agents' configs share; no TensorFlow is imported."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import tree

from repertory.components import specs


def largest_weight(
    environment_spec: specs.EnvironmentSpec, *stacks: Sequence[int]
) -> float:
    """Returns about how many numbers the largest weight of dense layers has.

    Args:
        environment_spec: of one lane; where it has an image the answer is infinite.
        *stacks: units of layers, one after the other, of which the first takes all
            observations and actions; a head of the actions follows.
    """
    leaves = tree.flatten(environment_spec.observations)
    if any(map(specs.is_image, leaves)):
        return math.inf
    actions = tree.flatten(environment_spec.actions)
    num_inputs = sum(math.prod(leaf.shape) for leaf in (*leaves, *actions))
    head = sum(getattr(leaf, 'num_values', math.prod(leaf.shape)) for leaf in actions)
    return max(
        first * second
        for units in stacks
        for first, second in itertools.pairwise([num_inputs, *units, head])
    )


def lstm(units: int) -> tuple[int, int]:
    """Returns an LSTM as layers: its four gates, and what they are made of."""
    return 4 * units, units
