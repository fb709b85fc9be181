"""Our side of benchmarks/actor.py: Ape-X DQN's or R2D2's actor on Catch, or D4PG's on
cartpole:swingup; no learner.

`serve` holds the table in one process, `act` runs the actor in another; each prints
one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import tensorflow as tf

from repertory.agents import apex_dqn, d4pg, r2d2
from repertory.components import actor, core, environment_loop, specs
from repertory.components.environments import catch, registry, vector
from repertory.replay import server


def _config(args: argparse.Namespace):
    common = {
        'n_step': args.n_step,
        'samples_per_insert': None,
        'min_replay_size': 1,
        'max_replay_size': 1_000_000,
    }
    if args.agent == 'd4pg':
        return d4pg.Config(
            **common, policy_sizes=(256, 256, 256), critic_sizes=(512, 512, 256)
        )
    if args.agent == 'r2d2':
        return r2d2.Config(**common, action_reward=False)
    return apex_dqn.Config(**common, hidden_sizes=tuple(args.hidden_sizes))


def _environment(args: argparse.Namespace, seed: int):
    if args.agent == 'd4pg':
        return registry.make_environment('control:cartpole:swingup', seed)
    return catch.Catch(seed)


def _wait(reason: str, waited_seconds: float) -> None:
    print(f'{reason} ({waited_seconds:.0f} s)', file=sys.stderr)


def serve(args: argparse.Namespace) -> None:
    """Holds the table until standard input is closed."""
    builder = _config(args).make_builder()
    spec = specs.make_environment_spec(_environment(args, 0))
    policy = builder.make_policy(builder.make_networks(spec), spec, core.Role())
    tables = builder.make_table_specs(spec, policy, args.lanes)
    with server.ReplayServer(tables) as replay:
        print(json.dumps({'address': replay.address}), flush=True)
        sys.stdin.read()
        items = sum(table.size for table in replay.statistics())
        print(json.dumps({'items': items}), flush=True)


def act(args: argparse.Namespace) -> None:
    """Acts for `seconds` after a warm-up, and prints the environment steps.

    The time ends when all items are in the table.
    """
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.random.set_seed(args.seed)
    environment = vector.SerialVectorEnvironment(
        [_environment(args, args.seed + lane) for lane in range(args.lanes)]
    )
    builder = _config(args).make_builder()
    networks = builder.make_networks(environment.spec)
    role = core.Role(num_lanes=args.lanes)
    policy = builder.make_policy(networks, environment.spec, role)
    with builder.make_adder(
        args.address, environment.spec, policy, role, _wait
    ) as adder:
        acting = actor.PolicyActor(policy, environment.spec, args.lanes, adder)
        loop = environment_loop.EnvironmentLoop(
            environment, acting, on_episode=lambda episode: None
        )

        def run(seconds: float) -> tuple[int, float]:
            steps, start = 0, time.perf_counter()
            while time.perf_counter() - start < seconds:
                steps += loop.step()
            adder.flush()
            return steps, time.perf_counter() - start

        run(args.warm_up_seconds)
        steps, seconds = run(args.seconds)
    print(json.dumps({'steps': steps, 'seconds': seconds}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        '--agent', choices=('apex_dqn', 'd4pg', 'r2d2'), default='apex_dqn'
    )
    parser.add_argument('--n-step', type=int, default=5)
    parser.add_argument('--hidden-sizes', type=int, nargs='*', default=[50, 50])
    parser.add_argument('--lanes', type=int, default=16)
    commands = parser.add_subparsers(required=True)
    commands.add_parser('serve').set_defaults(run=serve)
    acting = commands.add_parser('act')
    acting.set_defaults(run=act)
    acting.add_argument('--address', required=True)
    acting.add_argument('--seed', type=int, default=0)
    acting.add_argument('--seconds', type=float, default=10.0)
    acting.add_argument('--warm-up-seconds', type=float, default=2.0)
    args = parser.parse_args()
    args.run(args)


if __name__ == '__main__':
    main()
