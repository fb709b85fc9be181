"""Runs Ape-X DQN on Pong as a program, and records its speed and each node's memory.

    python -m benchmarks.atari --seconds 300

The replay is small, so that it is full within the first minute or so: after that no
node's memory should grow. Writes `results/atari.json`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import tempfile
import time

import psutil

from benchmarks import records
from repertory.agents import apex_dqn
from repertory.launch import experiment, launcher, program, run_folder


def make_experiment(seconds: float) -> experiment.ExperimentConfig:
    """Returns Pong with a replay that is soon full, and 2 samples an insert."""
    return experiment.ExperimentConfig(
        agent=apex_dqn.Config(
            batch_size=32,
            updates_per_call=1,
            min_replay_size=500,
            max_replay_size=2_000,
            samples_per_insert=2.0,
            dueling_size=512,
        ),
        environment='atari:Pong',
        max_actor_steps=None,
        max_seconds=seconds,
        evaluation_episodes=1,
        evaluation_period_seconds=1e6,
    )


def resident_bytes(nodes) -> dict[str, int]:
    """Returns the resident memory of each node, its children's included."""
    found = {}
    for node in nodes:
        if node.pid is None:  # Not forked yet.
            continue
        try:
            process = psutil.Process(node.pid)
            family = [process, *process.children(recursive=True)]
            found[node.name] = sum(member.memory_info().rss for member in family)
        except psutil.NoSuchProcess:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seconds', type=float, default=300.0)
    arguments = parser.parse_args()
    config = make_experiment(arguments.seconds)
    topology = experiment.Topology(num_actors=1, envs_per_actor=4, evaluators=0)
    readings = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = run_folder.open_folder(config, topology, pathlib.Path(scratch) / 'run')
        run = launcher.launch(
            program.make_program(config, topology, folder.path),
            'processes',
            folder.path,
            program.process_environments(config, topology),
        )
        begin = time.monotonic()
        while run.alive:
            try:
                run.wait(10.0).check()
            except TimeoutError:
                status = json.loads(folder.status.read_text())
                readings.append(
                    {
                        'seconds': round(time.monotonic() - begin, 1),
                        'counts': status['counts'],
                        'megabytes': {
                            name: round(size / 1e6, 1)
                            for name, size in resident_bytes(run.nodes).items()
                        },
                    }
                )
                print(readings[-1], flush=True)
    last = readings[-1]
    records.write(
        'atari',
        config.seed,
        {
            'environment_steps_per_second': last['counts'].get('actor_steps', 0)
            / last['seconds'],
            'learner_steps_per_second': last['counts'].get('learner_steps', 0)
            / last['seconds'],
            'readings': readings,
        },
    )


if __name__ == '__main__':
    main()
