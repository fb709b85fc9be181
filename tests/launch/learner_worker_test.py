import types

import numpy as np
import pytest

from repertory.agents.apex_dqn import config
from repertory.components import core
from repertory.launch import control as control_lib
from repertory.launch import coordinator as coordinator_lib
from repertory.launch import experiment as experiment_lib
from repertory.launch import learner_worker, progress, run_folder
from repertory.replay import info


class Learner(core.Learner):
    """Counts its calls, two steps each."""

    def __init__(self, steps=0):
        self._steps = steps
        self.calls = []

    def prepare(self):
        self.calls.append('prepare')

    @property
    def steps(self):
        return self._steps

    def step(self):
        self.calls.append('step')
        self._steps += 2
        return {'loss': 0.0}

    def get_variables(self):
        return self._steps, [np.zeros(1)]

    def state(self):
        return {'steps': np.array(self._steps)}

    def restore(self, state):
        raise NotImplementedError


class NoLogger(core.Logger):
    def write(self, values):
        pass

    def close(self):
        pass


def make_worker(learner, coordinator, folder):
    return learner_worker.LearnerWorker(
        learner=learner,
        samples=iter(()),
        updates_per_call=2,
        items_per_call=2,
        save_policy=lambda: None,
        replay_addresses=[],
        control=control_lib.NodeControl('learner', coordinator, background=False),
        logger=NoLogger(),
        folder=run_folder.RunFolder(folder),
        experiment=experiment_lib.ExperimentConfig(
            agent=config.Config(), environment='catch'
        ),
    )


@pytest.mark.parametrize('restored', [0, 60, 101])
def test_a_restarted_learner_counts_what_it_does_again_once(tmp_path, restored):
    coordinator = coordinator_lib.Coordinator(
        progress.Budget(learner_steps=150), ['learner']
    )
    coordinator.restore({'learner_steps': 101, 'actor_steps': 5})
    worker = make_worker(Learner(restored), coordinator, tmp_path)
    counts = []
    while worker.step():
        counts.append(coordinator.counts()['learner_steps'])
    assert counts == sorted(counts)
    # Counts stay those of the parameters.
    assert worker.learner.steps in (150, 151)
    assert coordinator.counts()['learner_steps'] == worker.learner.steps
    worker.close()


@pytest.mark.parametrize(
    ('stopped', 'calls'), [(False, ['prepare', 'step', 'step']), (True, [])]
)
def test_a_learner_prepares_its_first_step_unless_the_run_ends(
    tmp_path, stopped, calls
):
    coordinator = coordinator_lib.Coordinator(
        progress.Budget(learner_steps=4), ['learner']
    )
    if stopped:
        coordinator.request_stop('test')
    worker = make_worker(Learner(), coordinator, tmp_path)
    worker.run()
    assert worker.learner.calls == calls


@pytest.mark.parametrize(
    ('acted', 'learned', 'size', 'said'),
    [
        (288, 0, 288, 'nothing was learned: replay holds 288 of min_replay_size 500 i'),
        (288, 0, 500, 'nothing was learned: replay gave no batch before the end'),
        (288, 2, 288, ''),
        (0, 0, 0, ''),  # As of demonstrations, or a run that was just looked at.
    ],
)
def test_a_run_in_which_nothing_was_learned_says_so(
    tmp_path, monkeypatch, caplog, acted, learned, size, said
):
    coordinator = coordinator_lib.Coordinator(progress.Budget(), ['learner'])
    coordinator.restore({'actor_steps': acted})
    worker = make_worker(Learner(learned), coordinator, tmp_path)
    worker._replay_addresses, worker._save_replay = ['here'], False
    table = types.SimpleNamespace(size=size, min_size=500)
    monkeypatch.setattr(info, 'table_statistics', lambda *_, **__: [table])
    coordinator.request_stop('a budget is spent')
    worker.finish()
    assert (said in caplog.text) if said else 'learned' not in caplog.text
    worker.close()
