"""Ape-X DQN on Catch, in this thread or as the nodes of a program.

python examples/apex_dqn_catch.py
python examples/apex_dqn_catch.py --launch processes --num-actors 2
"""

from __future__ import annotations

import argparse

from repertory.agents import apex_dqn
from repertory.launch import experiment, launcher, local, program, run_folder

_LAUNCHES = 'sync', 'threads', 'processes'


def make_experiment(max_actor_steps: int, seed: int) -> experiment.ExperimentConfig:
    """Returns what is run, however it is launched."""
    return experiment.ExperimentConfig(
        agent=apex_dqn.Config(n_step=3, learning_rate=1e-3),
        environment='catch',
        max_actor_steps=max_actor_steps,
        target_return=0.95,
        seed=seed,
    )


def main() -> None:
    """Trains, and says where the records are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--launch', default='sync', choices=_LAUNCHES)
    parser.add_argument('--num-actors', default=2, type=int)
    parser.add_argument('--max-actor-steps', default=60_000, type=int)
    parser.add_argument('--seed', default=0, type=int)
    flags = parser.parse_args()
    config = make_experiment(flags.max_actor_steps, flags.seed)
    run_dir = run_folder.default_path('apex_dqn', 'catch', flags.seed)
    if flags.launch == 'sync':
        print(local.run_experiment(config, run_dir=run_dir))
    else:
        topology = experiment.Topology(num_actors=flags.num_actors)
        run_folder.open_folder(config, topology, run_dir)
        run = launcher.launch(
            program.make_program(config, topology, run_dir),
            flags.launch,
            run_dir,
            program.process_environments(config, topology),
        )
        run.wait().check()
    print(f'The run is in {run_dir}.')


if __name__ == '__main__':
    main()
