"""Environment steps per second without an agent: `lanes` in lockstep, or one `bare`."""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import tree

from benchmarks import timing
from benchmarks.own import configs
from repertory.components import specs, types
from repertory.components.environments import vector

_RECORDED = 1_000


def _actions(spec: specs.EnvironmentSpec, seed: int, num_lanes: int):
    """Returns random actions [N, ...], again and again the same."""
    random = np.random.default_rng(seed)

    def draw(leaf):
        shape = (num_lanes, *leaf.shape)
        if np.issubdtype(leaf.dtype, np.integer):
            return random.integers(leaf.minimum, leaf.maximum + 1, shape, leaf.dtype)
        return random.uniform(leaf.minimum, leaf.maximum, shape).astype(leaf.dtype)

    return itertools.cycle(
        [tree.map_structure(draw, spec.actions) for _ in range(_RECORDED)]
    )


def vectorized(args: argparse.Namespace) -> None:
    """Reports the environment steps of all lanes."""
    made = [configs.make_environment(args, args.seed + i) for i in range(args.lanes)]
    with vector.SerialVectorEnvironment(made) as environment:
        actions = _actions(environment.spec, args.seed, args.lanes)
        environment.reset()

        def step() -> int:
            timestep = environment.step(next(actions))
            # A lane that begins anew took no environment step.
            return int(np.sum(timestep.step_type != types.StepType.FIRST))

        timing.report(timing.measure(args, step))


def bare(args: argparse.Namespace) -> None:
    """Reports the steps of one environment, as it is."""
    environment = configs.make_environment(args, args.seed)
    spec = specs.make_environment_spec(environment)
    actions = _actions(spec, args.seed, 1)
    environment.reset()

    def step() -> int:
        return int(not environment.step(next(actions)[0]).first())

    timing.report(timing.measure(args, step))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    configs.add_arguments(parser)
    commands = parser.add_subparsers(required=True)
    for name, run in (('vectorized', vectorized), ('bare', bare)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        timing.add_arguments(command)
    args = parser.parse_args()
    args.run(args)


if __name__ == '__main__':
    main()
