"""Networks from features [N, F] to values and policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sonnet as snt
import tensorflow as tf


class QHead(snt.Module):
    """Action values float32 [N, A], through optional hidden layers."""

    def __init__(
        self,
        num_actions: int,
        hidden_sizes: Sequence[int] = (),
        name: str | None = None,
    ):
        super().__init__(name=name)
        self._layers = snt.nets.MLP([*hidden_sizes, num_actions])

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
        self._value = snt.nets.MLP([*hidden_sizes, 1], name='value')
        self._advantage = snt.nets.MLP([*hidden_sizes, num_actions], name='advantage')

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
        self._policy = snt.Linear(num_actions, name='policy')
        self._value = snt.Linear(1, name='value')

    def __call__(self, features: tf.Tensor) -> PolicyValue:
        value = tf.squeeze(self._value(features), axis=-1)
        return PolicyValue(self._policy(features), value)
