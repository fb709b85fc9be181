"""Hyperparameters of Ape-X DPG. Nothing here imports TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Literal

from repertory.agents import builder, checks, sizes
from repertory.components import specs
from repertory.replay import limits, tables


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(builder.AgentConfig):
    """Hyperparameters of Ape-X DPG; the defaults suit control tasks on one machine."""

    reward_scale: float = 1.0
    """Factor of rewards in learning; returns are reported without it."""
    n_step: int = 5
    """Environment steps of reward before the bootstrap."""
    discount: float = 0.99
    """Gamma, per environment step."""
    batch_size: int = 256
    """Transitions in a learner step."""
    updates_per_call: int = 1
    """Learner steps in one compiled call; 1 keeps priorities freshest."""
    min_replay_size: int = 1_000
    """Transitions in the replay before learning starts."""
    max_replay_size: int = 1_000_000
    """Transitions in the replay."""
    remover: Literal['fifo', 'lowest_priority'] = 'fifo'
    """What a full replay evicts: the oldest, or the one of lowest priority."""
    samples_per_insert: float | None = 32.0
    """Transitions sampled per transition inserted; None: neither side waits."""
    priority_exponent: float = 0.6
    """Alpha: 0 samples uniformly."""
    importance_sampling_exponent: float = 0.4
    """Beta: 0 leaves the bias of prioritized sampling in, 1 removes it."""
    priority_epsilon: float = 1e-6
    """Added to each priority, so that none is zero and never sampled again."""
    network: Literal['layer_norm', 'relu', 'tanh'] = 'layer_norm'
    """Layers: with a layer normalization first, as Acme's; or plain ones, where the
    action joins at the critic's second."""
    policy_sizes: tuple[int, ...] = (256, 256)
    """Units of the policy's layers."""
    critic_sizes: tuple[int, ...] = (256, 256)
    """Units of the critic's layers."""
    policy_learning_rate: float = 1e-4
    """Step size of the policy's Adam."""
    critic_learning_rate: float = 1e-4
    """Step size of the Adam of critic and observation network."""
    max_gradient_norm: float | None = 40.0
    """Global norm that the critic's and the policy's gradients are clipped to, each
    by themselves; None: no clipping."""
    max_abs_action_gradient: float | None = 1.0
    """Absolute value that each element of dq/da is clipped to; None: no clipping."""
    target_update_period: int = 100
    """Learner steps between copies to the target networks."""
    noise_sigma: float = 0.3
    """Standard deviation of a step's exploration noise; actions are in [-1, 1]."""
    noise_theta: float = 1.0
    """1: independent Gaussian noise. Below: Ornstein-Uhlenbeck noise, of which an
    environment step keeps 1 - theta."""

    def __post_init__(self):
        checks.choices(self)
        checks.at_least_one(
            self,
            'n_step',
            'batch_size',
            'updates_per_call',
            'min_replay_size',
            'max_replay_size',
            'target_update_period',
            'variable_update_period',
        )
        checks.in_unit_interval(self, 'discount', 'importance_sampling_exponent')
        checks.positive(
            self,
            'reward_scale',
            'priority_epsilon',
            'policy_learning_rate',
            'critic_learning_rate',
        )
        checks.positive_or_none(self, 'max_gradient_norm', 'max_abs_action_gradient')
        checks.not_negative(self, 'priority_exponent', 'noise_sigma')
        checks.control_networks(self)
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
        specs.check_canonical_action(environment_spec)

    def replay_bytes(self, environment_spec: specs.EnvironmentSpec) -> int:
        return tables.estimate_bytes(environment_spec, self.max_replay_size)

    def largest_weight(self, environment_spec: specs.EnvironmentSpec) -> float:
        stacks = self.policy_sizes, self.critic_sizes
        return sizes.largest_weight(environment_spec, *stacks)

    def make_builder(self) -> builder.Builder:
        from repertory.agents.apex_dpg import builder as apex_dpg_builder

        return apex_dpg_builder.Builder(self)


# Horgan et al. (2018), "Distributed Prioritized Experience Replay", as far as it is
# known: README.md says which values are from secondary sources.
PAPER = Config(
    samples_per_insert=None,
    network='tanh',
    policy_sizes=(300, 200),
    critic_sizes=(400, 300),
    max_gradient_norm=None,
)

# Pendulum-v1's rewards are in [-16.3, 0]. Noise that lasts gets it off the ground: a
# scalar critic soon leads to full torque, where small, independent noise is clipped
# away; a slow policy waits for its critic.
PENDULUM = Config(
    reward_scale=0.1,
    batch_size=128,
    samples_per_insert=64.0,
    policy_sizes=(128, 128),
    critic_sizes=(128, 128),
    policy_learning_rate=1e-4,
    critic_learning_rate=3e-4,
    noise_sigma=0.5,
    noise_theta=0.15,
)

PRESETS = {'default': Config(), 'paper': PAPER, 'pendulum': PENDULUM}
