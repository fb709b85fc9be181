"""Hyperparameters of Ape-X DQN. Nothing here imports TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Literal

from repertory.agents import builder, checks, sizes
from repertory.components import specs
from repertory.replay import limits, tables


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(builder.AgentConfig):
    """Hyperparameters of Ape-X DQN; the defaults suit small tasks on one machine."""

    n_step: int = 3
    """Environment steps of reward before the bootstrap."""
    discount: float = 0.99
    """Gamma, per environment step."""
    batch_size: int = 64
    """Transitions in a learner step."""
    updates_per_call: int = 4
    """Learner steps in one compiled call; 1 keeps priorities freshest."""
    min_replay_size: int = 500
    """Transitions in the replay before learning starts."""
    max_replay_size: int = 20_000
    """Transitions; the oldest are evicted."""
    samples_per_insert: float | None = 8.0
    """Transitions sampled per transition inserted; None: neither side waits."""
    priority_exponent: float = 0.6
    """Alpha: 0 samples uniformly."""
    importance_sampling_exponent: float = 0.4
    """Beta: 0 leaves the bias of prioritized sampling in, 1 removes it."""
    priority_epsilon: float = 1e-6
    """Added to each priority, so that none is zero and never sampled again."""
    loss: Literal['huber', 'squared'] = 'huber'
    """Of the TD error: Huber with delta 1, or half its square."""
    max_abs_reward: float | None = None
    """Learning clips rewards to plus or minus this; None: as they are."""
    hidden_sizes: tuple[int, ...] = (64,)
    """Units of the torso's layers, for observations that are no images."""
    dueling_size: int = 64
    """Units of the hidden layer of each of the two dueling streams."""
    optimizer: Literal['adam', 'rmsprop'] = 'adam'
    """Adam, or centred RMSProp with decay 0.95."""
    learning_rate: float = 1e-3
    """Step size of the optimiser."""
    optimizer_epsilon: float = 3e-4
    """Adam: beside the root; RMSProp: inside it."""
    max_gradient_norm: float | None = 40.0
    """Global norm that gradients are clipped to; None: no clipping."""
    target_update_period: int = 100
    """Learner steps between copies to the target network."""
    epsilon: float = 0.4
    """Of lane 0: lane i of N has epsilon^(1 + alpha i / (N - 1))."""
    epsilon_alpha: float = 7.0
    """Alpha of the exploration ladder."""
    evaluation_epsilon: float = 0.0
    """Exploration of evaluators."""

    def __post_init__(self):
        checks.choices(self)
        checks.at_least_one(
            self,
            'n_step',
            'batch_size',
            'updates_per_call',
            'min_replay_size',
            'max_replay_size',
            'dueling_size',
            'target_update_period',
            'variable_update_period',
        )
        checks.in_unit_interval(
            self, 'discount', 'importance_sampling_exponent', 'evaluation_epsilon'
        )
        checks.positive(self, 'learning_rate', 'optimizer_epsilon', 'priority_epsilon')
        checks.positive_or_none(self, 'max_abs_reward', 'max_gradient_norm')
        checks.not_negative(self, 'priority_exponent', 'epsilon_alpha')
        if not 0.0 < self.epsilon <= 1.0:
            raise ValueError(f'epsilon must be in (0, 1], got {self.epsilon}.')
        checks.sizes(self, 'hidden_sizes')
        checks.replay_sizes(self)

    def rate_limit(self) -> limits.RateLimit:
        """Returns the limit of the replay table; its buffer holds a learner call."""
        return limits.make_rate_limit(
            self.samples_per_insert,
            self.min_replay_size,
            self.batch_size * self.updates_per_call,
        )

    def check_spec(self, environment_spec: specs.EnvironmentSpec) -> None:
        super().check_spec(environment_spec)
        specs.check_discrete_action(environment_spec, 'Ape-X DQN')

    def replay_bytes(self, environment_spec: specs.EnvironmentSpec) -> int:
        return tables.estimate_bytes(environment_spec, self.max_replay_size)

    def largest_weight(self, environment_spec: specs.EnvironmentSpec) -> float:
        units = [*self.hidden_sizes, self.dueling_size]
        return sizes.largest_weight(environment_spec, units)

    def make_builder(self) -> builder.Builder:
        from repertory.agents.apex_dqn import builder as apex_dqn_builder

        return apex_dqn_builder.Builder(self)


# Horgan et al. (2018), "Distributed Prioritized Experience Replay", as far as it is
# known: README.md says which values are from secondary sources.
PAPER = Config(
    batch_size=512,
    updates_per_call=1,
    min_replay_size=50_000,
    max_replay_size=2_000_000,
    samples_per_insert=None,
    loss='squared',
    max_abs_reward=1.0,
    dueling_size=512,
    optimizer='rmsprop',
    learning_rate=2.5e-4 / 4,
    optimizer_epsilon=1.5e-7,
    target_update_period=2_500,
)

# For CartPole-v1. With twice the learning rate, and copies to the target twice as
# often, the balance is found sooner, and lost again.
CARTPOLE = Config(
    n_step=5,
    max_replay_size=100_000,
    samples_per_insert=16.0,
    hidden_sizes=(256, 256),
    learning_rate=5e-4,
)

PRESETS = {'default': Config(), 'paper': PAPER, 'cartpole': CARTPOLE}
