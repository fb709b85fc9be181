"""Networks from an observation [N, ...] to features [N, F]."""

from __future__ import annotations

from collections.abc import Sequence

import sonnet as snt
import tensorflow as tf

from repertory.components import types
from repertory.components.networks import linear, normalization, observations


class MLP(snt.Module):
    """Fully connected layers over a flattened observation nest."""

    def __init__(
        self,
        layer_sizes: Sequence[int],
        activation: linear.Activation = tf.nn.relu,
        activate_final: bool = True,
        name: str | None = None,
    ):
        super().__init__(name=name)
        self._layers = linear.Layers(layer_sizes, activation, activate_final)

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
    if frames.dtype != tf.uint8:
        return tf.cast(frames, tf.float32)
    if tf.config.list_logical_devices('GPU'):
        return tf.cast(frames, tf.float32) / 255.0
    # One pass in 0.4 of the time of that; there is no such kernel for GPUs.
    quantized = tf.bitcast(frames, tf.quint8)
    return tf.quantization.dequantize(quantized, 0.0, 1.0, mode='SCALED')


class ImpalaShallowTorso(snt.Module):
    """IMPALA's two convolutions and a layer of 256; uint8 frames are scaled here.

    Reference: Espeholt et al. (2018), "IMPALA", fig. 3 left,
    https://arxiv.org/abs/1802.01561.
    """

    def __init__(self, output_size: int = 256, name: str | None = None):
        super().__init__(name=name)
        self._layers = snt.Sequential(
            [
                snt.Conv2D(16, 8, 4, padding='VALID'),
                tf.nn.relu,
                snt.Conv2D(32, 4, 2, padding='VALID'),
                tf.nn.relu,
                snt.Flatten(),
                linear.Linear(output_size),
                tf.nn.relu,
            ]
        )

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Takes [N, H, W, C], uint8 in [0, 255] or float as it is."""
        return self._layers(scale_frames(observation))


class ImpalaResNetTorso(snt.Module):
    """IMPALA's 15 convolutions and a layer of 256; uint8 frames are scaled here.

    Three stacks of: convolution, max-pooling of stride 2, two residual blocks.

    Reference: Espeholt et al. (2018), "IMPALA", fig. 3 right,
    https://arxiv.org/abs/1802.01561.
    """

    def __init__(
        self,
        channels: Sequence[int] = (16, 32, 32),
        output_size: int = 256,
        name: str | None = None,
    ):
        super().__init__(name=name)
        self._stacks = [
            (snt.Conv2D(c, 3, name='entry'), [_ResidualBlock(c) for _ in range(2)])
            for c in channels
        ]
        self._output = snt.Sequential(
            [tf.nn.relu, snt.Flatten(), linear.Linear(output_size), tf.nn.relu]
        )

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Takes [N, H, W, C], uint8 in [0, 255] or float as it is."""
        x = scale_frames(observation)
        for entry, blocks in self._stacks:
            x = tf.nn.max_pool2d(entry(x), ksize=3, strides=2, padding='SAME')
            for block in blocks:
                x = block(x)
        return self._output(x)


class _ResidualBlock(snt.Module):
    def __init__(self, channels: int, name: str | None = None):
        super().__init__(name=name)
        self._first = snt.Conv2D(channels, 3)
        self._second = snt.Conv2D(channels, 3)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return x + self._second(tf.nn.relu(self._first(tf.nn.relu(x))))


class ActionRewardTorso(snt.Module):
    """Features of the observation beside the previous action and reward.

    It takes the observation of the wrapper of that name: a dict of `observation`,
    `action` (one-hot if discrete) and `reward`.
    """

    def __init__(
        self,
        torso: snt.Module,
        max_abs_reward: float | None = None,
        name: str | None = None,
    ):
        """Makes the torso.

        Args:
            torso: takes the observation proper.
            max_abs_reward: where the reward is clipped; None for no clipping.
            name: of the module.
        """
        super().__init__(name=name)
        self._torso = torso
        self._max_abs_reward = max_abs_reward

    def __call__(self, observation: types.Nest) -> tf.Tensor:
        reward = tf.cast(observation['reward'], tf.float32)
        if self._max_abs_reward is not None:
            limit = self._max_abs_reward
            reward = tf.clip_by_value(reward, -limit, limit)
        parts = (self._torso(observation['observation']), observation['action'], reward)
        return observations.flatten_observation(parts)


class LayerNormMLP(snt.Module):
    """Linear, layer normalization, tanh, then layers with ELU; any nest is flattened.

    The first layer's features are kept in a fixed range, whatever the observations'
    scale is.

    Reference: Hoffman et al. (2020), "Acme", control agents,
    https://arxiv.org/abs/2006.00979.
    """

    def __init__(self, layer_sizes: Sequence[int], name: str | None = None):
        super().__init__(name=name)
        init = snt.initializers.VarianceScaling(0.333, 'fan_out', 'uniform')
        self._first = linear.Linear(layer_sizes[0], w_init=init)
        self._norm = normalization.LayerNorm()
        self._rest = linear.Layers(layer_sizes[1:], tf.nn.elu, w_init=init)

    def __call__(self, inputs: types.Nest) -> tf.Tensor:
        flat = observations.flatten_observation(inputs)
        return self._rest(tf.tanh(self._norm(self._first(flat))))


class LateActionMLP(snt.Module):
    """Layers over (observation, action) where the action joins at the second layer.

    Reference: Lillicrap et al. (2016), "Continuous control with deep reinforcement
    learning", sec. 7, https://arxiv.org/abs/1509.02971.
    """

    def __init__(
        self,
        layer_sizes: Sequence[int],
        activation: linear.Activation = tf.nn.relu,
        name: str | None = None,
    ):
        """Makes the torso.

        Args:
            layer_sizes: at least two.
            activation: after each layer.
            name: of the module.

        Raises:
            ValueError: if there is no second layer.
        """
        super().__init__(name=name)
        if len(layer_sizes) < 2:
            raise ValueError(
                f'layer_sizes must have at least two entries, got {layer_sizes}; the '
                'action joins at the second layer.'
            )
        self._first = MLP(layer_sizes[:1], activation)
        self._rest = MLP(layer_sizes[1:], activation)

    def __call__(self, inputs: tuple[types.Nest, types.Nest]) -> tf.Tensor:
        observation, action = inputs
        return self._rest((self._first(observation), action))
