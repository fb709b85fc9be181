"""The data that parts hand to each other; no TensorFlow is imported here.

Letters: N lanes, B batch, T time. A nest is a dict, tuple, list or NamedTuple of
arrays, tensors or specs, nested at will, as `dm-tree` understands it.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np

Nest = Any
Array = np.ndarray


class StepType(enum.IntEnum):
    """dm_env's step types, and the row that only fills a window up."""

    FIRST = 0
    MID = 1
    LAST = 2
    PADDING = 3


class TimeStep(NamedTuple):
    """One step of N lanes, in lockstep.

    A lane whose step is LAST hands over its final observation here, and is FIRST at
    the next step: the action chosen in between is ignored, as in dm_env.
    """

    step_type: Array  # uint8 [N], a StepType.
    reward: Array  # float32 [N], received on arriving here; 0 at FIRST.
    discount: Array  # float32 [N], the environment's; 1 at FIRST, 0 if terminated.
    observation: Nest  # [N, ...]


class Row(NamedTuple):
    """What replay stores for one lane and step; leading axes are [N], [T] or [B, T].

    `reward` and `discount` were received on arriving at `observation`; `action` was
    taken from it. At a LAST step the action is a dummy. A PADDING row repeats the
    final observation with reward 0. The discount is the environment's alone: the
    agent's factor is not in it.
    """

    observation: Nest
    action: Nest
    reward: Any  # float32
    discount: Any  # float32
    step_type: Any  # uint8
    extras: Nest  # a dict, by name


class Transition(NamedTuple):
    """An n-step transition, [B, ...]; made in the learner's graph from rows.

    With m the number of real steps in the window, at most n:
    reward = sum_{k<m} (prod_{j<k} gamma d_{t+j}) r_{t+k}, and
    discount = prod_{j<m} gamma d_{t+j}: every factor is in it, nothing is to be
    applied again.
    """

    observation: Nest
    action: Nest
    reward: Any  # float32 [B]
    discount: Any  # float32 [B]
    next_observation: Nest
    extras: Nest  # of the first row


class Trajectory(NamedTuple):
    """A sequence or unroll: rows [B, T, ...] and the recurrent state before row 0."""

    rows: Row
    state: Nest  # [B, ...]; () for a policy without memory.


class SampleInfo(NamedTuple):
    """Of each sampled item, [B]."""

    key: Any  # uint64
    probability: Any  # float64, of being drawn, after the priority exponent.
    table_size: Any  # int64, items
    priority: Any  # float64
    # float64 []; the least `probability` of the whole batch, where this is the share of
    # one of several learners; () where it is all of it.
    least_probability: Any = ()


class Sample(NamedTuple):
    """What a dataset yields and a loss takes: `data` is a Transition or Trajectory."""

    info: SampleInfo
    data: Any
