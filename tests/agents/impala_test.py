"""IMPALA learns: a run in one thread, and its resumption."""

from repertory.launch import experiment, local
from tests.agents import impala_fakes


def test_a_run_in_one_thread_learns_each_unroll_once_and_resumes(tmp_path):
    # With several items in a batch: what was sampled ahead is gone at a resume.
    agent = impala_fakes.make_config(batch_size=4, max_queue_size=12, unroll_length=5)

    def run(steps, resume):
        return local.run_experiment(
            experiment.ExperimentConfig(
                agent=agent,
                environment='catch',
                max_actor_steps=steps,
                evaluation_episodes=4,
                evaluation_period_seconds=1e3,
                logging=experiment.LoggingConfig(
                    tensorboard=False, period_seconds=1e-3
                ),
            ),
            experiment.Topology(envs_per_actor=1),
            tmp_path / 'run',
            resume,
        )

    first = run(225, resume=False)
    # 225 environment steps are 250 with the dummies: 50 unrolls, and no whole batch of
    # them was left.
    assert first.counts['learner_steps'] == 12
    second = run(450, resume=True)
    assert 23 <= second.counts['learner_steps'] <= 25
