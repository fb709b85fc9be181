"""All that `launch/` knows of an agent: its config and its builder.

An agent's `config.py` imports no TensorFlow, so that commands start at once;
`AgentConfig.make_builder` imports the agent's builder when it is first needed.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from repertory.components import core, specs, types
from repertory.replay import rows

if TYPE_CHECKING:
    import dm_env
    import tensorflow as tf

    from repertory.components import policies
    from repertory.replay import tables

Networks = Any  # an agent's frozen dataclass of Sonnet modules


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentConfig(abc.ABC):
    """An agent's hyperparameters; a subclass adds its fields, flat, with units."""

    variable_update_period: int = 100
    """Environment steps of an actor between two parameter fetches."""

    items_hold_all_lanes: ClassVar[bool] = False
    """Whether an item is of all lanes of its actor, and so replay of as many lanes."""

    @abc.abstractmethod
    def make_builder(self) -> Builder:
        """Returns the agent's builder for these hyperparameters."""

    def wrap_environment(self, environment: dm_env.Environment) -> dm_env.Environment:
        """Returns the environment as the agent needs it, wherever one is made.

        For an agent whose inputs are more than the observation, such as the previous
        action and reward. The import of a wrapper costs no start-up time.
        """
        return environment

    def check_spec(self, environment_spec: specs.EnvironmentSpec) -> None:
        """Refuses an environment that the agent cannot act in or learn from.

        Raises:
            ValueError: saying what does not fit.
        """
        spec = environment_spec
        for name, nest in (
            ('observation_spec', spec.observations),
            ('action_spec', spec.actions),
        ):
            specs.check_nest(nest, name)
            rows.NestCodec(nest, name)

    def replay_bytes(self, environment_spec: specs.EnvironmentSpec) -> int | None:
        """Returns about what a shard's full replay holds; None where it is small."""
        del environment_spec
        return None

    def largest_weight(self, environment_spec: specs.EnvironmentSpec) -> float:
        """Returns about how many numbers the largest weight of the networks has.

        By it `components.kernels` chooses before TensorFlow is imported. Infinite for
        convolutions, and where it is not known.
        """
        del environment_spec
        return math.inf

    def share(self, num_learners: int) -> AgentConfig:
        """Returns the config for the dataset of one of some learners that learn as one.

        Its `batch_size` is that learner's part: all of them together take a batch.

        Raises:
            ValueError: if the batch cannot be divided so.
        """
        if num_learners == 1:
            return self
        batch_size = getattr(self, 'batch_size', None)
        if batch_size is None:
            raise ValueError(
                f'{type(self).__name__} must have a field batch_size for num_learners '
                f'> 1, got none for {num_learners}; add it, or override `share`.'
            )
        if batch_size % num_learners:
            raise ValueError(
                f'num_learners must divide batch_size, got {num_learners} and '
                f'{batch_size}; each learner samples an equal share.'
            )
        part: dict[str, Any] = {'batch_size': batch_size // num_learners}
        return dataclasses.replace(self, **part)

    def check_lanes(self, num_lanes: int) -> None:
        """Refuses a number of lanes of each actor that the agent cannot learn from.

        Raises:
            ValueError: saying which would do.
        """
        del num_lanes


class Builder(abc.ABC):
    """Makes an agent's parts; every method is needed, and none connects anything."""

    @abc.abstractmethod
    def make_networks(self, environment_spec: specs.EnvironmentSpec) -> Networks:
        """Returns new networks with their variables created.

        Raises:
            ValueError: if the agent cannot act in such an environment.
        """

    @abc.abstractmethod
    def make_policy(
        self,
        networks: Networks,
        environment_spec: specs.EnvironmentSpec,
        role: core.Role,
    ) -> policies.Policy:
        """Returns what an actor or evaluator of this role does."""

    @abc.abstractmethod
    def make_table_specs(
        self,
        environment_spec: specs.EnvironmentSpec,
        policy: policies.Policy,
        num_lanes: int,
    ) -> Sequence[tables.TableSpec]:
        """Returns the replay tables; `num_lanes` are those of one actor."""

    @abc.abstractmethod
    def make_adder(
        self,
        address: str,
        environment_spec: specs.EnvironmentSpec,
        policy: policies.Policy,
        role: core.Role,
        wait: core.Wait,
    ) -> core.Adder:
        """Returns the adder of one actor, writing to the replay server at `address`."""

    @abc.abstractmethod
    def make_dataset(
        self,
        addresses: Sequence[str],
        environment_spec: specs.EnvironmentSpec,
        policy: policies.Policy,
        num_lanes: int,
        prefetch: bool,
    ) -> tf.data.Dataset:
        """Returns a dataset of `types.Sample`, [updates per call, B, ...].

        Without `prefetch` as little as possible is sampled ahead: for one thread.
        """

    @abc.abstractmethod
    def make_learner(
        self,
        networks: Networks,
        target_networks: Networks,
        environment_spec: specs.EnvironmentSpec,
        samples: Iterator[types.Sample],
        replay_addresses: Sequence[str],
    ) -> core.Learner:
        """Returns the learner; it takes its batches from `samples`.

        `target_networks` come of a second call of the same factory as `networks`.
        """
