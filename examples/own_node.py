"""A node of one's own in the program: it watches the run.

python examples/own_node.py
"""

from __future__ import annotations

import argparse

import launchpad as lp

from repertory.agents import apex_dqn
from repertory.launch import control, experiment, launcher, program, run_folder


def watch(coordinator: lp.CourierClient, period_seconds: float) -> None:
    """Prints, now and then, how far the run is; its log is `logs/watcher_0.log`."""
    with control.NodeControl('watcher_0', coordinator) as node:
        while not node.wait_until('exit', period_seconds):
            print(node.phase, node.counts, flush=True)


def make_experiment(max_actor_steps: int) -> experiment.ExperimentConfig:
    """Returns what is run."""
    return experiment.ExperimentConfig(
        agent=apex_dqn.Config(), environment='catch', max_actor_steps=max_actor_steps
    )


def main() -> None:
    """Adds the node to an experiment's program and launches both together."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        '--launch', default='processes', choices=('threads', 'processes')
    )
    parser.add_argument('--max-actor-steps', default=20_000, type=int)
    flags = parser.parse_args()
    config = make_experiment(flags.max_actor_steps)
    topology = experiment.Topology(num_actors=2)
    folder = run_folder.open_folder(config, topology)
    made = program.make_program(config, topology, folder.path)
    [coordinator] = made.groups[launcher.COORDINATOR]
    watcher = lp.PyNode(watch, coordinator.create_handle(), 1.0)
    made.add_node(watcher, label='watcher')
    run = launcher.launch(
        made, flags.launch, folder.path, program.process_environments(config, topology)
    )
    run.wait().check()
    print(f'The run is in {folder.path}.')


if __name__ == '__main__':
    main()
