"""IMPALA on CartPole-v1: 475 within 200,000 environment steps."""

from repertory.agents import impala
from repertory.launch import experiment

TARGET = 475.0
NUM_SEEDS = 3


def make(seed: int):
    return experiment.ExperimentConfig(
        # Returns of 100 and a sum of losses: at its default cost the baseline's
        # gradient leaves the policy's next to nothing of the clipped norm.
        agent=impala.Config(
            baseline_cost=0.02, learning_rate=1e-3, learning_rate_decay_steps=625
        ),
        environment='gym:CartPole-v1',
        seed=seed,
        max_actor_steps=200_000,
        evaluation_episodes=20,
        evaluation_period_seconds=4.0,
    ), experiment.Topology(envs_per_actor=16)


VARIANTS = {'impala': make}
