"""IMPALA on CartPole-v1: 475 at the end of 400,000 environment steps."""

from repertory.agents import impala
from repertory.launch import experiment

TARGET = 475.0


def make(seed: int):
    return experiment.ExperimentConfig(
        # Values of 100 would crowd the policy out of the torso that they share, and
        # of a clipped gradient: rewards are scaled, and the gradient, a sum over 320
        # steps, is not clipped. The learning rate is 0 at the last of 1,250 updates.
        agent=impala.Config(
            reward_scale=0.05,
            learning_rate=3e-3,
            learning_rate_decay_steps=1_250,
            max_gradient_norm=None,
        ),
        environment='gym:CartPole-v1',
        seed=seed,
        max_actor_steps=400_000,
        evaluation_episodes=20,
        evaluation_period_seconds=10.0,
    ), experiment.Topology(envs_per_actor=16)


VARIANTS = {'impala': make}
