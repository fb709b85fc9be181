"""Hyperparameters of IMPALA. Nothing here imports TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Literal

import dm_env

from repertory.agents import builder, checks, sizes
from repertory.components import specs
from repertory.components.environments.wrappers import observation_action_reward


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(builder.AgentConfig):
    """Hyperparameters of IMPALA; the defaults suit small tasks on one machine.

    Losses are summed over the steps and unrolls of a batch, as in the paper: learning
    rates, `optimizer_epsilon` and `max_gradient_norm` go with that.
    """

    unroll_length: int = 20
    """Steps of an unroll, T; it has T + 1 observations."""
    batch_size: int = 16
    """Unrolls in a learner step; a multiple of the environments of an actor."""
    updates_per_call: int = 1
    """Learner steps in one call, each on a batch of its own; more calls cost time, but
    the batches of a call wait for each other."""
    max_queue_size: int = 48
    """Unrolls that may wait for the learner; while it is full, actors do."""
    discount: float = 0.99
    """Gamma, per environment step."""
    correction: Literal['vtrace', 'none'] = 'vtrace'
    """V-trace, or none: actions are taken for the learner's own, as a control."""
    clip_rho: float | None = 1.0
    """Rho-bar, of the temporal differences; None: no clipping."""
    clip_c: float | None = 1.0
    """C-bar, of the traces; None: no clipping."""
    clip_pg_rho: float | None = 1.0
    """Rho-bar of the policy gradient; None: no clipping."""
    lambda_: float = 1.0
    """Factor of the traces, in [0, 1]."""
    baseline_cost: float = 0.5
    """Of half the squared difference of V-trace target and value."""
    entropy_cost: float = 0.01
    """Of the policy's entropy, which is raised."""
    reward_scale: float = 1.0
    """Factor of rewards, in learning only, before their transform. Values of 100 that
    share a torso with the policy crowd it out: on CartPole 0.05 helps."""
    reward_transform: Literal[
        'none', 'clip', 'tanh', 'asymmetric', 'asymmetric_paper'
    ] = 'none'
    """In learning only. `clip`: to [-1, 1]; `asymmetric` is the optimistic asymmetric
    clipping of the published code, `asymmetric_paper` that of the paper's figure."""
    torso: Literal['shallow', 'deep'] = 'shallow'
    """For images: two convolutions, or the residual network of 15."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Units of the torso's layers, for observations that are no images."""
    core: Literal['none', 'lstm'] = 'none'
    """Whether the policy has a memory; if so, the previous action and reward, clipped
    to [-1, 1], are inputs too."""
    core_size: int = 256
    """Units of the LSTM."""
    optimizer: Literal['adam', 'rmsprop'] = 'adam'
    """Adam, or RMSProp with decay 0.99, whose mean square starts at 1."""
    learning_rate: float = 2e-3
    """Step size of the optimiser."""
    learning_rate_decay_steps: int | None = None
    """Learner steps in which the learning rate falls linearly to 0; None: it stays."""
    optimizer_epsilon: float = 1e-5
    """Adam: beside the root; RMSProp: inside it."""
    max_gradient_norm: float | None = 40.0
    """Global norm that gradients are clipped to; None: no clipping."""
    evaluation_greedy: bool = True
    """Evaluators take the likeliest action; False: they draw one, as actors do."""
    variable_update_period: int = 320
    """Environment steps of an actor between two parameter fetches."""

    items_hold_all_lanes = True

    def __post_init__(self):
        checks.choices(self)
        checks.at_least_one(
            self,
            'unroll_length',
            'batch_size',
            'updates_per_call',
            'core_size',
            'variable_update_period',
        )
        checks.in_unit_interval(self, 'discount', 'lambda_')
        checks.positive(self, 'reward_scale', 'learning_rate', 'optimizer_epsilon')
        checks.not_negative(self, 'baseline_cost', 'entropy_cost')
        checks.positive_or_none(
            self,
            'clip_rho',
            'clip_c',
            'clip_pg_rho',
            'max_gradient_norm',
            'learning_rate_decay_steps',
        )
        checks.sizes(self, 'hidden_sizes')
        self.check_lanes(1)

    def check_lanes(self, num_lanes: int) -> None:
        if self.batch_size % num_lanes:
            raise ValueError(
                f'envs_per_actor must divide batch_size, got {num_lanes} and '
                f'{self.batch_size}; an actor writes the unrolls of all its '
                'environments as one.'
            )
        least = self.batch_size * self.updates_per_call + 2 * num_lanes
        if self.max_queue_size < least:
            raise ValueError(
                'max_queue_size must be >= batch_size updates_per_call + 2 '
                f'envs_per_actor = {least}, got {self.max_queue_size}; with no more '
                'than a call of the learner takes in the queue actors and learner '
                'would wait for each other.'
            )

    def wrap_environment(self, environment: dm_env.Environment) -> dm_env.Environment:
        """Adds the previous action and reward for a policy with a memory."""
        if self.core == 'none':
            return environment
        return observation_action_reward.wrap(environment)

    def check_spec(self, environment_spec: specs.EnvironmentSpec) -> None:
        super().check_spec(environment_spec)
        specs.check_discrete_action(environment_spec, 'IMPALA')

    def largest_weight(self, environment_spec: specs.EnvironmentSpec) -> float:
        core = sizes.lstm(self.core_size) if self.core == 'lstm' else ()
        return sizes.largest_weight(environment_spec, [*self.hidden_sizes, *core])

    def make_builder(self) -> builder.Builder:
        from repertory.agents.impala import builder as impala_builder

        return impala_builder.Builder(self)


# Espeholt et al. (2018), "IMPALA", table G.1 (Atari, 200 million frames).
PAPER = Config(
    batch_size=32,
    max_queue_size=96,
    reward_transform='clip',
    optimizer='rmsprop',
    learning_rate=6e-4,
    # 200e6 frames / 4 frames a step / (20 x 32 steps a learner step).
    learning_rate_decay_steps=78_125,
    optimizer_epsilon=0.01,
    evaluation_greedy=False,
)

PRESETS = {'default': Config(), 'paper': PAPER}
