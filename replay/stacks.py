"""Stacks of frames: stored as single frames, stacked again in the learner's graph.

Four frames a row would be four times the bytes to write, to keep and to sample.
TensorFlow is imported when something is first stacked: an adder does without.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tree

from repertory.components import specs, types

if TYPE_CHECKING:
    import tensorflow as tf

# The check takes about 20 us a row, so it looks at one lane, then at the next.
_ROWS_OF_A_LANE = 32


def stack_frames(
    frames: tf.Tensor, step_type: tf.Tensor, rows: Sequence[int], num_frames: int
) -> tf.Tensor:
    """Returns the stacks that an actor saw, from the frames of consecutive rows.

    A stack goes back to the FIRST row of its episode, whose frame is repeated before.
    A PADDING row after an episode has the stack of the LAST row, one before an episode
    its own frame only.

    Args:
        frames: [B, R, *frame], each row's newest.
        step_type: uint8 [B, R]; each item ends with a real row or with PADDING of one.
        rows: the rows whose stacks are wanted, each at least `num_frames` - 1.
        num_frames: of a stack, the newest last.

    Returns:
        [B, len(rows), *frame, num_frames].
    """
    import tensorflow as tf

    is_padding = tf.equal(step_type, types.StepType.PADDING)
    is_start = is_padding | tf.equal(step_type, types.StepType.FIRST)
    numbers = tf.range(frames.shape[1])
    last = tf.reduce_max(tf.where(is_padding, 0, numbers), axis=1, keepdims=True)
    index = tf.minimum(tf.constant(rows, tf.int32), last)  # [B, T], of the newest.
    indices = [index]
    for _ in range(num_frames - 1):
        at_start = tf.gather(is_start, index, batch_dims=1)
        index = tf.where(at_start, index, index - 1)
        indices.append(index)
    chosen = tf.gather(frames, tf.stack(indices[::-1], axis=2), batch_dims=1)
    # With three axes the transposition takes half of the time.
    frame = frames.shape[2:]
    flat = tf.reshape(chosen, [-1, num_frames, frame.num_elements()])
    return tf.reshape(
        tf.transpose(flat, [0, 2, 1]), [-1, len(rows), *frame, num_frames]
    )


class StackCheck:
    """Refuses stacks that could not be put together again from single frames.

    It looks at some rows of each lane: a wrapper that breaks the promise of
    `specs.StackedFrames` does so all the time.

    Args:
        observation_spec: of one lane.
    """

    def __init__(self, observation_spec: types.Nest) -> None:
        self._stacks = [
            (i, '.'.join(map(str, ['observation', *path])), leaf.shape[-1])
            for i, (path, leaf) in enumerate(tree.flatten_with_path(observation_spec))
            if isinstance(leaf, specs.StackedFrames)
        ]
        self._frames: list[collections.deque] = []
        self._num_rows = 0

    def __call__(self, row: types.Row) -> None:
        """Takes each row [N], in order.

        Raises:
            ValueError: if a stack is not of the frames that the rows before had.
        """
        if not self._stacks:
            return
        turn, rest = divmod(self._num_rows, _ROWS_OF_A_LANE)
        self._num_rows += 1
        lane = turn % len(row.step_type)
        is_first = row.step_type[lane] == types.StepType.FIRST
        if rest == 0:
            self._frames = [collections.deque(maxlen=k) for _, _, k in self._stacks]
        leaves = tree.flatten(row.observation)
        for (i, name, num_frames), frames in zip(
            self._stacks, self._frames, strict=True
        ):
            stack = leaves[i][lane]
            newest = stack[..., -1].copy()
            frames.extend([newest] * (num_frames if is_first else 1))
            if len(frames) == num_frames and not np.array_equal(
                stack, np.stack(frames, axis=-1)
            ):
                raise ValueError(
                    f'{name} of lane {lane} must be a stack of the newest '
                    f'{num_frames} frames, as its spec says, got other frames than '
                    'those of the steps before; replay stores each frame once. Wrap '
                    'in FrameStack last, or return specs.unstacked(spec).'
                )
