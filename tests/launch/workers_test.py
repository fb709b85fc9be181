"""The evaluator's part of a run's end."""

import types

from repertory.components.environments import vector
from repertory.launch import control as control_lib
from repertory.launch import coordinator as coordinator_lib
from repertory.launch import progress, workers
from tests import fakes


def test_one_good_evaluation_is_no_reached_target():
    coordinator = coordinator_lib.Coordinator(
        progress.Budget(target_return=1.5), ['actor_0', 'evaluator']
    )
    lane = fakes.ScriptedEnvironment([[2.0], [1.0], [2.0], [1.5]], truncated=False)
    rows = []
    worker = workers.EvaluatorWorker(
        vector.SerialVectorEnvironment([lane]),
        fakes.Idle(1),
        types.SimpleNamespace(version=0),
        control_lib.NodeControl('evaluator', coordinator, background=False),
        types.SimpleNamespace(write=rows.append),
        types.SimpleNamespace(evaluation_episodes=1, evaluation_period_seconds=1.0),
    )
    phases = []
    for _ in range(4):
        worker.step()
        phases.append(coordinator.phase)
    assert phases[:3] == ['run'] * 3 and phases[3] != 'run'
    assert coordinator.reason == 'target_return of 1.5 reached: 1.5'
    # The one that ended the run has its row as well.
    assert [row['episode_return'] for row in rows] == [2.0, 1.0, 2.0, 1.5]
