"""A run of Ape-X DQN on Catch whose processes are killed, and how tests watch it."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

from repertory.agents.apex_dqn import config
from repertory.launch import experiment as experiment_lib
from repertory.launch import launcher, program, progress, supervisor
from repertory.replay import info
from tests.integration import fragile


def marked(path, nodes_only=False):
    """Returns the ids of the processes that run in `path` by their environment."""
    mark = f'{fragile.VARIABLE}={path / "break"}'.encode()
    found = []
    for entry in pathlib.Path('/proc').glob('[0-9]*/environ'):
        try:
            variables = entry.read_bytes().split(b'\0')
        except OSError:
            continue  # It has ended.
        is_node = any(
            v.startswith(supervisor.NODE_VARIABLE.encode()) for v in variables
        )
        if mark in variables and (is_node or not nodes_only):
            found.append(int(entry.parent.name))
    return [pid for pid in found if pid != os.getpid()]


def parent(pid):
    """Returns the id of the process that started `pid`."""
    stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
    return int(stat.rpartition(')')[2].split()[1])


class Run:
    """All its processes are restarted; `mode` is where they run."""

    def __init__(self, run_dir, mode='processes'):
        self.path = run_dir
        self.mode = mode
        self.made = None
        self.run = None

    def launch(
        self,
        checkpoint_seconds,
        shards,
        max_restarts=9,
        resume=False,
        max_replay_size=20_000,
        **topology,
    ):
        experiment = experiment_lib.ExperimentConfig(
            agent=config.Config(
                min_replay_size=200, max_replay_size=max_replay_size, batch_size=32
            ),
            environment=fragile.make,
            max_actor_steps=10**9,
            evaluation_period_seconds=2.0,
            checkpoint=experiment_lib.CheckpointConfig(
                period_seconds=checkpoint_seconds
            ),
            logging=experiment_lib.LoggingConfig(tensorboard=False),
        )
        layout = experiment_lib.Topology(
            num_actors=2,
            envs_per_actor=8,
            replay_shards=shards,
            restart=experiment_lib.GROUPS,
            restart_policy=experiment_lib.restarts.RestartPolicy(
                max_restarts=max_restarts, backoff_seconds=1.0
            ),
            **topology,
        )
        mark = {fragile.VARIABLE: str(self.path / 'break')}
        environments = program.process_environments(experiment, layout)
        self.made = program.make_program(experiment, layout, self.path, resume)
        self.run = launcher.launch(
            self.made,
            self.mode,
            self.path,
            {group: {**own, **mark} for group, own in environments.items()},
            program.restart_policies(layout),
        )
        steps = self.counts().get('learner_steps', 0)
        self.wait_for(lambda: self.counts().get('learner_steps', 0) > steps + 500, 180)

    def status(self):
        return progress.read(self.path / 'status.json')

    def counts(self):
        return self.status().get('counts', {})

    def pids(self):
        return {node.name: node.pid for node in self.run.nodes}

    def inserts_and_samples(self):
        addresses = [n.addresses[0].resolve() for n in self.made.groups['replay']]
        tables = [info.table_statistics(address)[0] for address in addresses]
        return sum(t.inserts for t in tables), sum(t.samples for t in tables)

    def wait_for(self, condition, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            assert self.run.alive, self.run.wait().failure
            assert time.monotonic() < end, f'waited in vain: {self.status()}'
            time.sleep(0.05)

    def seconds_until_back(self, victim, incarnation):
        """Waits until the victim reports anew, and both counts have grown since.

        The counts are monotone all the while.
        """
        begin, last = time.monotonic(), self.counts()

        def grown(by, since):
            nonlocal last
            now = self.counts()
            names = 'actor_steps', 'learner_steps'
            assert all(now[n] >= last[n] for n in names), (last, now)
            last = now
            return all(now[n] >= since[n] + by for n in names)

        def reports():
            grown(0, last)
            node = self.status()['nodes'].get(victim)
            return node is None or node['incarnation'] != incarnation

        self.wait_for(reports)
        since = self.counts()
        self.wait_for(lambda: grown(200, since))
        return time.monotonic() - begin

    def check_ratio(self, asked=8.0):
        """Checks the samples per insert of the next 4,000 items."""
        inserts, samples = self.inserts_and_samples()
        now = inserts, samples
        while now[0] - inserts < 4000:
            time.sleep(0.2)
            now = self.inserts_and_samples()
        ratio = (now[1] - samples) / (now[0] - inserts)
        assert ratio == pytest.approx(asked, rel=0.1)

    def incarnation(self, name):
        return self.status()['nodes'].get(name, {}).get('incarnation', '')

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.run is not None:  # Ended already, unless a test has failed.
            self.run.kill()
            self.run.wait(timeout=60)

    def stop(self):
        """Stops it; nothing that it started is left."""
        self.run.stop()
        result = self.run.wait(timeout=60)
        assert not marked(self.path)
        return result
