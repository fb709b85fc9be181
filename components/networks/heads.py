"""Networks from features [N, F] to values and policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from repertory.components.networks import linear


class QHead(snt.Module):
    """Action values float32 [N, A], through optional hidden layers."""

    def __init__(
        self,
        num_actions: int,
        hidden_sizes: Sequence[int] = (),
        name: str | None = None,
    ):
        super().__init__(name=name)
        self._layers = linear.Layers([*hidden_sizes, num_actions], activate_final=False)

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        return self._layers(features)


class DuelingHead(snt.Module):
    """Action values [N, A]: V + A - mean A, each stream with its own hidden layers.

    Reference: Wang et al. (2016), "Dueling Network Architectures for Deep
    Reinforcement Learning", eq. 9, https://arxiv.org/abs/1511.06581.
    """

    def __init__(
        self,
        num_actions: int,
        hidden_sizes: Sequence[int] = (512,),
        name: str | None = None,
    ):
        super().__init__(name=name)
        self._value = linear.Layers(
            [*hidden_sizes, 1], activate_final=False, name='value'
        )
        self._advantage = linear.Layers(
            [*hidden_sizes, num_actions], activate_final=False, name='advantage'
        )

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        advantage = self._advantage(features)  # [N, A]
        mean = tf.reduce_mean(advantage, axis=-1, keepdims=True)
        return self._value(features) + advantage - mean


class PolicyValue(NamedTuple):
    logits: tf.Tensor  # float32 [N, A]
    value: tf.Tensor  # float32 [N]


class PolicyValueHead(snt.Module):
    """Logits of a discrete policy and a state value, one linear layer each."""

    def __init__(self, num_actions: int, name: str | None = None):
        super().__init__(name=name)
        self._policy = linear.Linear(num_actions, name='policy')
        self._value = linear.Linear(1, name='value')

    def __call__(self, features: tf.Tensor) -> PolicyValue:
        value = tf.squeeze(self._value(features), axis=-1)
        return PolicyValue(self._policy(features), value)


class CategoricalDistribution(NamedTuple):
    """A distribution of values on a fixed support."""

    logits: tf.Tensor  # float32 [N, K]
    support: tf.Tensor  # float32 [K]

    def mean(self) -> tf.Tensor:
        """Returns float32 [N]."""
        return tf.linalg.matvec(tf.nn.softmax(self.logits), self.support)


class CategoricalHead(snt.Module):
    """A distribution of values on `num_atoms` points from `vmin` to `vmax`."""

    def __init__(
        self, vmin: float, vmax: float, num_atoms: int = 51, name: str | None = None
    ):
        """Makes the head.

        Raises:
            ValueError: if vmin >= vmax, or there are fewer than 2 atoms.
        """
        super().__init__(name=name)
        if vmin >= vmax:
            raise ValueError(f'vmin must be < vmax, got {vmin} and {vmax}.')
        if num_atoms < 2:
            raise ValueError(f'num_atoms must be >= 2, got {num_atoms}.')
        self._support = np.linspace(vmin, vmax, num_atoms, dtype=np.float32)
        self._layer = linear.Linear(num_atoms)

    def __call__(self, features: tf.Tensor) -> CategoricalDistribution:
        return CategoricalDistribution(
            self._layer(features), tf.constant(self._support)
        )


class ValueHead(snt.Module):
    """One value for each lane, float32 [N]."""

    def __init__(self, name: str | None = None):
        super().__init__(name=name)
        self._layer = linear.Linear(1)

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        return tf.squeeze(self._layer(features), axis=-1)


class TanhPolicyHead(snt.Module):
    """Actions in (-1, 1) of a given shape; near 0 at the start of training."""

    def __init__(self, action_shape: Sequence[int], name: str | None = None):
        super().__init__(name=name)
        self._shape = tuple(action_shape)
        self._layer = linear.Linear(
            math.prod(self._shape), w_init=snt.initializers.VarianceScaling(1e-4)
        )

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        return tf.reshape(inverting_tanh(self._layer(features)), [-1, *self._shape])


@tf.custom_gradient
def inverting_tanh(x: tf.Tensor):
    """Returns a = tanh(x), whose gradient lets go of a limit once it points inwards.

    tanh's derivative, (1 - a)(1 + a), is nearly 0 at both limits, whichever way the
    gradient points: an action driven there by an unlearned critic stays, however the
    critic changes. Here descent multiplies by 1 - a where it raises a and by 1 + a
    where it lowers it, of the same sign and the same at 0.

    Reference: Hausknecht and Stone (2016), "Deep Reinforcement Learning in
    Parameterized Action Space", sec. 4.2 (inverting gradients),
    https://arxiv.org/abs/1511.04143.
    """
    a = tf.tanh(x)

    def gradient(da: tf.Tensor) -> tf.Tensor:
        return da * tf.where(da < 0.0, 1.0 - a, 1.0 + a)

    return a, gradient
