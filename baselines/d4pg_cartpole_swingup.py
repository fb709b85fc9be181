"""D4PG on dm_control's cartpole:swingup: 600 within 150,000 environment steps."""

from repertory.agents import d4pg
from repertory.launch import experiment

TARGET = 600.0

# 64 samples per insert: a learner step for each two of the environment's.
AGENT = d4pg.Config(
    vmin=-100.0,
    vmax=100.0,
    batch_size=128,
    samples_per_insert=64.0,
    policy_sizes=(128, 128),
    critic_sizes=(128, 128),
    policy_learning_rate=3e-4,
    critic_learning_rate=3e-4,
)


def make(seed: int):
    return experiment.ExperimentConfig(
        agent=AGENT,
        environment='control:cartpole:swingup',
        seed=seed,
        max_actor_steps=150_000,
        evaluation_episodes=4,
        evaluation_period_seconds=60.0,
    ), experiment.Topology(envs_per_actor=4)


VARIANTS = {'d4pg': make}
