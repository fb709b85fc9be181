"""Rows of scripted lanes, and what adders have to make of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import reverb
import tensorflow as tf
from dm_env import specs as dm_specs

from repertory.components import specs, types
from repertory.replay import rows, tables

ENVIRONMENT = specs.EnvironmentSpec(
    observations=dm_specs.Array((3,), np.float32, 'tag'),
    actions=dm_specs.DiscreteArray(1000, name='action'),
    rewards=dm_specs.Array((), np.float32),
    discounts=dm_specs.BoundedArray((), np.float32, 0, 1),
)
CODEC = rows.RowCodec(rows.make_row_spec(ENVIRONMENT, {}))
STATE_CODEC = rows.NestCodec((dm_specs.Array((2,), np.float32),), 'state')


class Episode(NamedTuple):
    """Rewards of the steps, and the discount that comes with the last one."""

    rewards: Sequence[float]
    discount: float = 0.0


def play(lanes: Sequence[Sequence[Episode]], num_rows: int) -> Iterator[types.Row]:
    """Yields rows [N] of lanes that play their episodes over and over.

    The observation is (lane, episode, step), the action 10 episode + step, and the
    recurrent state before it (episode, step). Of the extras, q is 100 episode + step.
    """
    position = [[0, 0] for _ in lanes]
    for _ in range(num_rows):
        row = []
        for lane, episodes in enumerate(lanes):
            number, step = position[lane]
            episode = episodes[number % len(episodes)]
            is_last = step == len(episode.rewards)
            step_type = 0 if step == 0 else 2 if is_last else 1
            reward = episode.rewards[step - 1] if step else 0.0
            discount = episode.discount if is_last else 1.0
            row.append((lane, number, step, step_type, reward, discount))
            position[lane] = [number + 1, 0] if is_last else [number, step + 1]
        lane, number, step, step_type, reward, discount = np.array(row).T
        yield types.Row(
            observation=np.stack([lane, number, step], 1).astype(np.float32),
            action=(10 * number + step).astype(np.int32),
            reward=reward.astype(np.float32),
            discount=discount.astype(np.float32),
            step_type=step_type.astype(np.uint8),
            extras={
                'q': (100 * number + step).astype(np.float32),
                'state': (np.stack([number, step], 1).astype(np.float32),),
            },
        )


def fifo(signature: tables.Signature, name: str = 't') -> tables.TableSpec:
    """Returns a table from which all items come once, in the order of insertion."""
    return tables.make_queue(name, 10_000, signature)


def never(reason: str, waited_seconds: float) -> None:
    """Is called by what must not wait long."""
    assert waited_seconds < 60, reason


def read(address: str, num_items: int) -> tuple[dict[str, tf.Tensor], np.ndarray]:
    """Returns the next items' packed columns [num_items, ...] and their priorities."""
    sampled = list(
        reverb.Client(address).sample(
            't', num_items, emit_timesteps=False, unpack_as_table_signature=True
        )
    )
    packed = {
        name: tf.constant(np.stack([sample.data[name] for sample in sampled]))
        for name in sampled[0].data
    }
    return packed, np.array([sample.info.priority for sample in sampled])


def take(dataset: tf.data.Dataset, num_samples: int) -> list[types.Sample]:
    """Returns the first samples; `dataset.take` would wait for one more at its end."""
    iterator = iter(dataset)
    return [next(iterator) for _ in range(num_samples)]
