"""What is run, `ExperimentConfig`, and where its parts are placed, `Topology`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import dm_env
import tyro

from repertory.agents import builder
from repertory.components import core, kernels, specs
from repertory.components.environments import vector
from repertory.launch import checks, placement, restarts

EnvironmentFactory = Callable[[int], dm_env.Environment]
NetworksFactory = Callable[[specs.EnvironmentSpec], builder.Networks]
GROUPS = tuple('coordinator replay relay learner inference actor evaluator'.split())


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """When the learner, the counts and the replay are saved.

    A run that ends or is stopped cleanly always saves once more at its end.
    """

    period_seconds: float = 300.0
    """Seconds between two checkpoints."""
    keep: int = 2
    """Newest checkpoints kept."""
    replay: bool = True
    """Saves the replay too; without it a resumed run starts with an empty one."""

    def __post_init__(self) -> None:
        checks.check_above(self.period_seconds, 0, 'checkpoint.period_seconds')
        checks.check_integer(self.keep, 1, 'checkpoint.keep')


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoggingConfig:
    """Where metrics go; the CSV files are what curves are drawn from."""

    csv: bool = True
    """Writes one CSV file for each role."""
    tensorboard: bool = True
    """Writes TensorBoard event files."""
    wandb: bool = False
    """Sends metrics to Weights & Biases; needs the extra `wandb`."""
    terminal: bool = False
    """Also writes each row of metrics to the node's log."""
    period_seconds: float = 1.0
    """Least seconds between two rows of one role."""
    histogram_period_seconds: float | None = None
    """Least seconds between histograms of the parameters in TensorBoard; None: none."""
    video_period_seconds: float | None = None
    """Least seconds between films of an episode there; needs the extra `video`."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name.endswith('_seconds') and value is not None:
                checks.check_above(value, 0, f'logging.{field.name}')
        if self.video_period_seconds is not None:
            checks.check_installed('imageio', 'video', 'logging.video_period_seconds')


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """An agent, an environment, and when the run ends: at the first budget reached.

    Raises:
        ValueError: if a value cannot work, or no budget is given.
        TypeError: if the agent or the environment is of a wrong kind.
    """

    # What tyro is told here only concerns the command line.
    agent: Annotated[builder.AgentConfig, tyro.conf.arg(name='')]
    """The agent's hyperparameters."""

    environment: tyro.conf.Suppress[str | EnvironmentFactory]
    """A name such as `catch` or `gym:CartPole-v1`, or a function of a seed."""

    networks: tyro.conf.Suppress[NetworksFactory | None] = None
    """Makes the networks from the environment's specs; None: the agent's own."""

    logger: tyro.conf.Suppress[Callable[[str], core.Logger] | None] = None
    """Makes one more logger for each role, by a name such as `learner`; None: none."""

    seed: int = 0
    """All seeds of environments and policies are drawn from it, by role and lane."""

    max_actor_steps: int | None = 100_000
    """Environment steps of all actors together; None: no limit."""

    max_learner_steps: int | None = None
    """Learner steps; None: no limit."""

    max_seconds: float | None = None
    """Seconds of wall clock, those before a resume included; None: no limit."""

    target_return: float | None = None
    """Ends the run when the mean returns of two evaluations in a row
    reach it: what has just been learnt is at times lost again for a
    while; None: no target."""

    evaluation_episodes: int = 20
    """Episodes of one evaluation."""

    evaluation_period_seconds: float = 5.0
    """Seconds from the start of one evaluation to the start of the next."""

    checkpoint: CheckpointConfig = CheckpointConfig()
    """When state is saved."""

    logging: LoggingConfig = LoggingConfig()
    """Where metrics go."""

    def __post_init__(self) -> None:
        if not isinstance(self.agent, builder.AgentConfig):
            raise TypeError(
                f'agent must be an AgentConfig, got {type(self.agent).__name__}; '
                "give the config of an agent's config.py."
            )
        checks.check_environment(self.environment)
        checks.check_integer(self.seed, 0, 'seed')
        for name in ('max_actor_steps', 'max_learner_steps'):
            if getattr(self, name) is not None:
                checks.check_integer(getattr(self, name), 1, name)
        if self.max_seconds is not None:
            checks.check_above(self.max_seconds, 0, 'max_seconds')
        for name in ('max_seconds', 'target_return'):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ValueError(
                    f'{name} must be finite or None, got {value}; it would never be '
                    'reached.'
                )
        checks.check_integer(self.evaluation_episodes, 1, 'evaluation_episodes')
        checks.check_above(
            self.evaluation_period_seconds, 0, 'evaluation_period_seconds'
        )
        budgets = 'max_actor_steps', 'max_learner_steps', 'max_seconds', 'target_return'
        if all(getattr(self, name) is None for name in budgets):
            raise ValueError(
                f'one of {", ".join(budgets)} must be set, got None for each; '
                'the run would never end.'
            )

    @property
    def environment_name(self) -> str:
        """The environment's name, or that of the function which makes it."""
        if isinstance(self.environment, str):
            return self.environment
        return getattr(
            self.environment, '__name__', type(self.environment).__name__
        ).strip('<>')

    def make_environment(self, seed: int) -> dm_env.Environment:
        """Returns a new environment, wrapped as the agent needs it.

        Raises:
            ValueError: if there is no environment of this name.
        """
        if not isinstance(self.environment, str):
            return self.agent.wrap_environment(self.environment(seed))
        from repertory.components.environments import registry  # Slow to import.

        return self.agent.wrap_environment(
            registry.make_environment(self.environment, seed)
        )

    def environment_spec(self) -> specs.EnvironmentSpec:
        """Returns the specs of one lane; makes an environment to ask it."""
        with vector.SerialVectorEnvironment([self.make_environment(0)]) as one:
            return one.spec

    def kernel_variables(self) -> dict[str, str]:
        """Returns the variables of processes that import TensorFlow for this."""
        if not kernels.are_off():  # The user's own choice; an environment costs time.
            return {}
        if self.networks is not None:
            return kernels.variables(math.inf)
        weight = self.agent.largest_weight(self.environment_spec())
        return kernels.variables(weight)

    def builder(self) -> builder.Builder:
        """Returns the agent's builder; imports TensorFlow."""
        return self.agent.make_builder()

    def make_networks(self, environment_spec: specs.EnvironmentSpec) -> Any:
        """Returns new networks, the experiment's own or the agent's."""
        if self.networks is not None:
            return self.networks(environment_spec)
        return self.builder().make_networks(environment_spec)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Topology:
    """How many processes of each kind a program has, and what shares one."""

    num_actors: int = 1
    """Actors."""

    actors_per_process: int = 1
    """Actors, a thread each, that share a process: less memory, but also one core."""

    envs_per_actor: int = 16
    """Environments that one actor steps in lockstep."""

    environments: Literal['serial', 'threads', 'processes'] = 'serial'
    """Steps an actor's environments one by one, or together: those that
    mostly wait in threads, those that compute for a millisecond or
    more in processes."""

    environment_workers: int | None = None
    """Such processes an actor; None: one a core."""

    replay_shards: int = 1
    """Replay servers; actors are spread over them, the learner samples
    from all. Each has the agent's tables, with sizes of its own."""

    replay: Literal['separate', 'learner'] = 'separate'
    """Replay in processes of its own, or in the learner's, which samples faster."""

    num_learners: int = 1
    """Learners, a process each, that learn as one: each samples an equal
    share of a batch, and all make the step of the joined gradient. For
    large networks."""

    inference: Literal['local', 'central'] = 'local'
    """Actors act by parameters of their own, or ask one server, which
    chooses for half of them at once while the others step: for large
    networks, on a GPU."""

    inference_timeout_seconds: float = 0.01
    """The longest that a batch of the server is waited for to fill."""

    variable_relays: int = 0
    """Processes that pass the learner's parameters on to the actors,
    which are spread over them: for many actors. None: each asks the
    learner."""

    evaluators: int = 1
    """Evaluators that run beside the actors; each plays evaluations of
    its own. Plots and sweeps show their mean."""

    gpu_groups: tuple[str, ...] = ('learner',)
    """Groups of nodes that may use a GPU; it is hidden from all others."""

    restart: tuple[str, ...] = ()
    """Groups of processes that are started again when they fail; the
    failure of any other ends the run. coordinator, replay, relay,
    learner, inference, actor, evaluator."""

    restart_policy: restarts.RestartPolicy = restarts.RestartPolicy()
    """How often they are."""

    ray: placement.RayConfig = placement.RayConfig()
    """The cluster that a program runs on where it is launched by Ray."""

    def __post_init__(self) -> None:
        counts = 'num_actors', 'actors_per_process', 'envs_per_actor', 'replay_shards'
        for name in (*counts, 'num_learners'):
            checks.check_integer(getattr(self, name), 1, name)
        if self.environment_workers is not None:
            checks.check_integer(self.environment_workers, 1, 'environment_workers')
        kinds = 'serial', 'threads', 'processes'
        checks.check_member(self.environments, kinds, 'environments')
        checks.check_member(self.replay, ('separate', 'learner'), 'replay')
        checks.check_member(self.inference, ('local', 'central'), 'inference')
        checks.check_above(
            self.inference_timeout_seconds, 0, 'inference_timeout_seconds'
        )
        checks.check_integer(self.evaluators, 0, 'evaluators')
        checks.check_integer(self.variable_relays, 0, 'variable_relays')
        if self.variable_relays > self.num_actors:
            raise ValueError(
                'variable_relays must be <= num_actors, got '
                f'{self.variable_relays} > {self.num_actors}; nobody asks the rest.'
            )
        if self.variable_relays and self.inference == 'central':
            raise ValueError(
                "variable_relays must be 0 where inference is 'central', got "
                f'{self.variable_relays}; actors have no parameters there.'
            )
        for name, groups in (('gpu_groups', GROUPS[3:]), ('restart', GROUPS)):
            for group in getattr(self, name):
                checks.check_member(group, groups, name)
        if self.replay_shards > self.num_actors:
            raise ValueError(
                'replay_shards must be <= num_actors, got '
                f'{self.replay_shards} > {self.num_actors}; a shard without an actor '
                'stays empty, and sampling from it waits for ever.'
            )
