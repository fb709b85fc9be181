"""From nested observations to one array, and networks over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tree

from repertory.components import specs, types


def flatten_observation(nest: types.Nest, num_batch_dims: int = 1) -> tf.Tensor:
    """Returns all leaves, cast to float32 and flattened, side by side.

    Args:
        nest: tensors or arrays [N, ...] of any numeric dtype or bool; a leaf that is a
            scalar for each lane counts as one feature.
        num_batch_dims: leading axes that are kept; 2 for [T, N, ...].

    Returns:
        float32 [N, F], or [T, N, F]; leaves in the order of `tree.flatten`.

    Raises:
        ValueError: if the nest is empty, or a leaf has too few axes.
    """
    leaves = [tf.convert_to_tensor(leaf) for leaf in tree.flatten(nest)]
    if not leaves:
        raise ValueError('nest must have at least one leaf, got an empty one.')
    flat = []
    for leaf in leaves:
        if leaf.shape.rank < num_batch_dims:
            raise ValueError(
                f'nest must have leaves with at least {num_batch_dims} axes, got the '
                f'shape {leaf.shape}; the leading axes are those of the batch.'
            )
        batch = tf.shape(leaf)[:num_batch_dims]
        size = leaf.shape[num_batch_dims:].num_elements()
        shape = tf.concat([batch, [size]], axis=0)
        flat.append(tf.reshape(tf.cast(leaf, tf.float32), shape))
        flat[-1].set_shape([*leaf.shape[:num_batch_dims], size])
    return flat[0] if len(flat) == 1 else tf.concat(flat, axis=-1)


def time_major(nest: types.Nest) -> types.Nest:
    """Returns the tensors [T, B, ...] of a nest [B, T, ...]."""
    return tree.map_structure(
        lambda x: tf.transpose(x, [1, 0, *range(2, x.shape.rank)]), nest
    )


def over_time(function: Callable[..., Any], *nests: types.Nest) -> Any:
    """Returns `function` of [T * N, ...] nests as [T, N, ...]: one call for all steps.

    Args:
        function: from nests [M, ...] to a nest [M, ...].
        *nests: tensors [T, N, ...].
    """
    length, lanes = tf.unstack(tf.shape(tree.flatten(nests)[0])[:2])
    merged = tree.map_structure(
        lambda x: tf.reshape(x, tf.concat([[length * lanes], tf.shape(x)[2:]], 0)),
        nests,
    )
    merged = tree.map_structure(_keep_static_shape, merged, nests)
    return tree.map_structure(
        lambda x: tf.reshape(x, tf.concat([[length, lanes], tf.shape(x)[1:]], 0)),
        function(*merged),
    )


def _keep_static_shape(merged: tf.Tensor, original: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(merged, [None, *original.shape[2:]])


def create_variables(module: Callable[..., Any], *spec_nests: types.Nest) -> Any:
    """Calls `module` once on zeros [1, ...] of the specs, so that variables exist.

    Args:
        module: a Sonnet module or a function over several.
        *spec_nests: dm_env specs of one lane, one nest for each argument.

    Returns:
        What the module returned, of leading axis 1.
    """
    zeros = [tree.map_structure(tf.constant, specs.zeros(s, 1)) for s in spec_nests]
    return module(*zeros)
