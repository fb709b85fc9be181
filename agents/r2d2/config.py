"""Hyperparameters of R2D2. Nothing here imports TensorFlow."""

from __future__ import annotations

import dataclasses

import dm_env

from repertory.agents import builder, checks, sizes
from repertory.components import specs
from repertory.components.environments.wrappers import observation_action_reward
from repertory.replay import limits, tables


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(builder.AgentConfig):
    """Hyperparameters of R2D2; the defaults suit small tasks on one machine."""

    burn_in_length: int = 8
    """Environment steps before the trace that only bring the state up to date."""
    trace_length: int = 16
    """Environment steps of a sequence that are trained on."""
    sequence_period: int = 8
    """Environment steps between the starts of two traces; less than one overlaps."""
    zero_state: bool = False
    """Starts sequences from the initial state, not from the one that the actor had."""
    action_reward: bool = True
    """Gives the network the previous action and reward, zeros at an episode's start."""
    n_step: int = 5
    """Environment steps of reward before the bootstrap."""
    discount: float = 0.997
    """Gamma, per environment step."""
    rescaling_epsilon: float = 1e-3
    """Epsilon of the rescaling h of values."""
    batch_size: int = 32
    """Sequences in a learner step."""
    updates_per_call: int = 1
    """Learner steps in one compiled call; 1 keeps priorities freshest."""
    min_replay_size: int = 100
    """Sequences in the replay before learning starts."""
    max_replay_size: int = 20_000
    """Sequences; the oldest are evicted."""
    samples_per_insert: float | None = 8.0
    """Sequences sampled per sequence inserted; None: neither side waits."""
    priority_exponent: float = 0.9
    """Alpha: 0 samples uniformly."""
    importance_sampling_exponent: float = 0.6
    """Beta: 0 leaves the bias of prioritized sampling in, 1 removes it."""
    max_priority_weight: float = 0.9
    """Eta: the priority is eta times the largest TD error plus 1 - eta the mean."""
    priority_epsilon: float = 1e-6
    """Added to each priority, so that none is zero and never sampled again."""
    hidden_sizes: tuple[int, ...] = (64,)
    """Units of the torso's layers, for observations that are no images."""
    lstm_size: int = 64
    """Units of the LSTM."""
    dueling_size: int = 64
    """Units of the hidden layer of each of the two dueling streams."""
    learning_rate: float = 1e-3
    """Step size of Adam."""
    optimizer_epsilon: float = 1e-3
    """Of Adam, beside the root."""
    max_gradient_norm: float | None = 40.0
    """Global norm that gradients are clipped to; None: no clipping."""
    target_update_period: int = 100
    """Learner steps between copies to the target network."""
    epsilon: float = 0.4
    """Exploration of the first lane; lane i of N: epsilon^(1 + alpha i / (N - 1))."""
    epsilon_alpha: float = 7.0
    """Alpha of the exploration ladder."""
    evaluation_epsilon: float = 0.0
    """Exploration of evaluators."""

    def __post_init__(self):
        checks.choices(self)
        checks.at_least_one(
            self,
            'trace_length',
            'sequence_period',
            'n_step',
            'batch_size',
            'updates_per_call',
            'min_replay_size',
            'max_replay_size',
            'lstm_size',
            'dueling_size',
            'target_update_period',
            'variable_update_period',
        )
        checks.not_negative(
            self, 'burn_in_length', 'priority_exponent', 'epsilon_alpha'
        )
        checks.in_unit_interval(
            self,
            'discount',
            'importance_sampling_exponent',
            'max_priority_weight',
            'evaluation_epsilon',
        )
        checks.positive(
            self,
            'learning_rate',
            'optimizer_epsilon',
            'priority_epsilon',
            'rescaling_epsilon',
        )
        checks.positive_or_none(self, 'max_gradient_norm')
        if not 0.0 < self.epsilon <= 1.0:
            raise ValueError(f'epsilon must be in (0, 1], got {self.epsilon}.')
        checks.sizes(self, 'hidden_sizes')
        if self.sequence_period > self.trace_length:
            raise ValueError(
                'sequence_period must be <= trace_length, got '
                f'{self.sequence_period} > {self.trace_length}; the steps between two '
                'traces would never be trained on.'
            )
        checks.replay_sizes(self)

    @property
    def sequence_length(self) -> int:
        """Rows of a stored sequence: the trace's last step has an observation more."""
        return self.burn_in_length + self.trace_length + 1

    def rate_limit(self) -> limits.RateLimit:
        """Returns the limit of the replay table; its buffer holds a learner call."""
        items = self.batch_size * self.updates_per_call
        return limits.make_rate_limit(
            self.samples_per_insert, self.min_replay_size, items
        )

    def wrap_environment(self, environment: dm_env.Environment) -> dm_env.Environment:
        """Adds the previous action and reward to the observation."""
        if not self.action_reward:
            return environment
        return observation_action_reward.wrap(environment)

    def check_spec(self, environment_spec: specs.EnvironmentSpec) -> None:
        super().check_spec(environment_spec)
        specs.check_discrete_action(environment_spec, 'R2D2')
        spec = environment_spec.observations
        if self.action_reward and not observation_action_reward.is_extended(spec):
            raise ValueError(
                'observation_spec must be that of ObservationActionReward for '
                f'action_reward=True, got {specs.describe(spec)}.'
            )

    def replay_bytes(self, environment_spec: specs.EnvironmentSpec) -> int:
        state_bytes = 2 * 4 * self.lstm_size  # Hidden and cell, float32.
        size, period = self.max_replay_size, self.sequence_period
        return tables.estimate_bytes(environment_spec, size, period, state_bytes)

    def largest_weight(self, environment_spec: specs.EnvironmentSpec) -> float:
        units = [*self.hidden_sizes, *sizes.lstm(self.lstm_size), self.dueling_size]
        return sizes.largest_weight(environment_spec, units)

    def make_builder(self) -> builder.Builder:
        from repertory.agents.r2d2 import builder as r2d2_builder

        return r2d2_builder.Builder(self)


# Kapturowski et al. (2019), "Recurrent Experience Replay in Distributed Reinforcement
# Learning", sec. 2.3, table 2 and appendix. README.md says what is from elsewhere.
PAPER = Config(
    burn_in_length=40,
    trace_length=80,
    sequence_period=40,
    batch_size=64,
    min_replay_size=5_000,
    max_replay_size=100_000,
    samples_per_insert=None,
    lstm_size=512,
    dueling_size=512,
    learning_rate=1e-4,
    target_update_period=2_500,
    variable_update_period=400,
)

PRESETS = {'default': Config(), 'paper': PAPER}
