"""Networks from an observation [N, ...] to features [N, F]."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sonnet as snt
import tensorflow as tf

from repertory.components import types
from repertory.components.networks import observations

Activation = Callable[[tf.Tensor], tf.Tensor]


class MLP(snt.Module):
    """Fully connected layers over a flattened observation nest."""

    def __init__(
        self,
        layer_sizes: Sequence[int],
        activation: Activation = tf.nn.relu,
        activate_final: bool = True,
        name: str | None = None,
    ):
        super().__init__(name=name)
        self._layers = snt.nets.MLP(
            layer_sizes, activation=activation, activate_final=activate_final
        )

    def __call__(self, observation: types.Nest) -> tf.Tensor:
        return self._layers(observations.flatten_observation(observation))


class AtariTorso(snt.Module):
    """The three convolutions of DQN; uint8 frames are scaled to [0, 1] here.

    Convolutions are not padded, as in the paper: 84x84 frames give 3,136 features.

    Reference: Mnih et al. (2015), "Human-level control through deep reinforcement
    learning", Methods, https://doi.org/10.1038/nature14236.
    """

    def __init__(self, name: str | None = None):
        super().__init__(name=name)
        self._layers = snt.Sequential(
            [
                snt.Conv2D(32, 8, 4, padding='VALID'),
                tf.nn.relu,
                snt.Conv2D(64, 4, 2, padding='VALID'),
                tf.nn.relu,
                snt.Conv2D(64, 3, 1, padding='VALID'),
                tf.nn.relu,
                snt.Flatten(),
            ]
        )

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Takes [N, H, W, C], uint8 in [0, 255] or float as it is."""
        return self._layers(scale_frames(observation))


def scale_frames(frames: tf.Tensor) -> tf.Tensor:
    """Returns float32: uint8 divided by 255, other dtypes as they are."""
    scaled = tf.cast(frames, tf.float32)
    return scaled / 255.0 if frames.dtype == tf.uint8 else scaled
