"""What several of our sides of the benchmarks are made of."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any

from benchmarks.own import configs
from repertory.components import actor, core, environment_loop
from repertory.components.environments import vector
from repertory.replay import limits, tables


def uniform(table: tables.TableSpec) -> tables.TableSpec:
    """Returns a queue's table as one that can be read again and again."""
    if not table.is_queue:
        return table
    return dataclasses.replace(
        table,
        sampler='uniform',
        max_times_sampled=0,
        rate_limit=limits.RateLimit(min_size=1),
    )


def wait(reason: str, waited_seconds: float) -> None:
    print(f'{reason} ({waited_seconds:.0f} s)', file=sys.stderr)


class Acting:
    """An actor of `lanes` environments that writes to the replay at `address`."""

    def __init__(self, args: argparse.Namespace, builder: Any, address: str):
        environment = vector.SerialVectorEnvironment(
            [
                configs.make_environment(args, args.seed + lane)
                for lane in range(args.lanes)
            ]
        )
        self.spec, role = environment.spec, core.Role(num_lanes=args.lanes)
        self.networks = builder.make_networks(self.spec)
        self.policy = builder.make_policy(self.networks, self.spec, role)
        self.adder = builder.make_adder(address, self.spec, self.policy, role, wait)
        acting = actor.PolicyActor(self.policy, self.spec, args.lanes, self.adder)
        self.loop = environment_loop.EnvironmentLoop(
            environment, acting, on_episode=lambda episode: None
        )
