"""What our sides of the benchmarks run: agents, their sizes, and environments.

Nothing here imports TensorFlow.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

import dm_env
import numpy as np
from dm_env import specs as dm_specs

from benchmarks import frames
from repertory.agents import apex_dqn, d4pg, impala, r2d2
from repertory.agents import builder as agents_builder
from repertory.components import allocator, kernels, specs
from repertory.components.environments import catch, registry

_UNLIMITED: dict[str, Any] = {
    'samples_per_insert': None,
    'min_replay_size': 1,
    'max_replay_size': 1_000_000,
}
_CONFIGS: dict[str, agents_builder.AgentConfig] = {
    'apex_dqn': apex_dqn.Config(
        **_UNLIMITED, n_step=5, batch_size=256, hidden_sizes=(50,), dueling_size=50
    ),
    'd4pg': d4pg.Config(
        **_UNLIMITED, policy_sizes=(256, 256, 256), critic_sizes=(512, 512, 256)
    ),
    # Without the previous action and reward, which the peer's actors do not see.
    'r2d2': r2d2.Config(
        **_UNLIMITED, burn_in_length=4, trace_length=16, action_reward=False
    ),
    'impala': impala.Config(core='lstm', max_queue_size=1_000_000),
}
_SIZES = {'r2d2': ('lstm_size', 'dueling_size'), 'impala': ('core_size',)}
_FRAMES: dict[str, dict[str, Any]] = {
    'apex_dqn': {'batch_size': 32, 'dueling_size': 512, 'max_replay_size': 20_000},
    'r2d2': {
        'batch_size': 8,
        'lstm_size': 512,
        'dueling_size': 512,
        'max_replay_size': 2_000,
    },
    'impala': {'batch_size': 16, 'core_size': 256, 'max_queue_size': 2_000},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--agent', choices=tuple(_CONFIGS), default='apex_dqn')
    parser.add_argument('--frames', action='store_true')
    parser.add_argument('--lanes', type=int, default=16)
    parser.add_argument('--units', type=int, default=64)
    parser.add_argument('--batch-size', type=int)
    parser.add_argument('--observation-size', type=int, help='float32, not Catch')


def make_config(args: argparse.Namespace) -> Any:
    """Returns the agent's sizes; with `--frames`, those of the papers' networks."""
    changes: dict[str, Any] = {}
    if args.frames:
        changes = _FRAMES[args.agent]
    elif args.agent in _SIZES:
        changes = dict.fromkeys(_SIZES[args.agent], args.units)
        changes['hidden_sizes'] = (args.units,)
    if args.batch_size is not None:
        changes['batch_size'] = args.batch_size
    return dataclasses.replace(_CONFIGS[args.agent], **changes)


class Vectors(frames.Frames):
    """Shows random float32 [size], and else is as `Frames`."""

    def __init__(self, seed: int, size: int):
        random = np.random.default_rng(seed)
        self._stacks = random.random((128, size), np.float32)
        self._time = 0

    def observation_spec(self) -> dm_specs.Array:
        return dm_specs.Array(self._stacks.shape[1:], np.float32, 'vector')


def make_environment(args: argparse.Namespace, seed: int) -> dm_env.Environment:
    if args.frames:
        return frames.Frames(seed)
    if args.observation_size is not None:
        return Vectors(seed, args.observation_size)
    if args.agent == 'd4pg':
        return registry.make_environment('control:cartpole:swingup', seed)
    return catch.Catch(seed)


def process_variables(flags: Sequence[str]) -> dict[str, str]:
    """Returns the variables that a program gives its processes, for a side's flags."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args, _ = parser.parse_known_args(flags)
    spec = specs.make_environment_spec(make_environment(args, 0))
    weight = make_config(args).largest_weight(spec)
    return {**allocator.variables(), **kernels.variables(weight)}
