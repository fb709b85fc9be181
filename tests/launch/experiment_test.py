import dataclasses

import pytest

from repertory.agents import apex_dqn, builder, impala
from repertory.components.environments import catch, wrapping
from repertory.launch import checks
from repertory.launch import experiment as experiment_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agent(builder.AgentConfig):
    def make_builder(self):
        raise NotImplementedError


def make(**fields):
    return experiment_lib.ExperimentConfig(
        **{'agent': Agent(), 'environment': 'catch', **fields}
    )


@pytest.mark.parametrize(
    ('fields', 'error', 'message'),
    [
        ({'agent': 3}, TypeError, 'agent must be an AgentConfig, got int'),
        ({'environment': 3}, TypeError, 'environment must be a name or a function'),
        ({'seed': -1}, ValueError, 'seed must be >= 0, got -1'),
        ({'seed': 1.5}, TypeError, 'seed must be an integer, got 1.5'),
        ({'max_actor_steps': 0}, ValueError, 'max_actor_steps must be >= 1, got 0'),
        ({'max_seconds': 0.0}, ValueError, 'max_seconds must be > 0, got 0.0'),
        ({'target_return': float('nan')}, ValueError, 'target_return must be finite'),
        ({'max_seconds': float('inf')}, ValueError, 'max_seconds must be finite'),
        ({'evaluation_episodes': 0}, ValueError, 'evaluation_episodes must be >= 1'),
        ({'max_actor_steps': None}, ValueError, 'the run would never end'),
    ],
)
def test_an_experiment_that_cannot_work_is_refused(fields, error, message):
    with pytest.raises(error, match=message):
        make(**fields)


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'num_actors': 0}, 'num_actors must be >= 1, got 0'),
        ({'num_learners': 0}, 'num_learners must be >= 1, got 0'),
        ({'replay': 'here'}, "replay must be one of 'separate', 'learner', got 'here'"),
        ({'evaluators': -1}, 'evaluators must be >= 0, got -1'),
        ({'environment_workers': 0}, 'environment_workers must be >= 1, got 0'),
        (
            {'inference': 'far'},
            "inference must be one of 'local', 'central', got 'far'",
        ),
        ({'gpu_groups': ('actors',)}, "gpu_groups must be one of .* got 'actors'"),
        ({'restart': ('actors',)}, "restart must be one of .* got 'actors'"),
        ({'replay_shards': 2}, 'replay_shards must be <= num_actors, got 2 > 1'),
        ({'environments': 'far'}, "environments must be one of 'serial', 'threads', "),
        ({'variable_relays': -1}, 'variable_relays must be >= 0, got -1'),
        ({'variable_relays': 2}, 'variable_relays must be <= num_actors, got 2 > 1'),
        (
            {'variable_relays': 1, 'inference': 'central'},
            "variable_relays must be 0 where inference is 'central', got 1; actors",
        ),
    ],
)
def test_a_topology_that_cannot_work_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment_lib.Topology(**fields)


def test_a_target_return_needs_an_evaluator():
    with pytest.raises(ValueError, match='evaluators must be >= 1 where target_return'):
        checks.check_together(
            make(target_return=0.5), experiment_lib.Topology(evaluators=0)
        )


def test_one_thread_has_no_relays():
    with pytest.raises(
        ValueError, match='variable_relays must be 0 in one thread, got'
    ):
        checks.check_one_thread(experiment_lib.Topology(variable_relays=1))


def learners(number, envs_per_actor=16):
    return experiment_lib.Topology(num_learners=number, envs_per_actor=envs_per_actor)


def test_learners_share_a_batch_in_equal_parts():
    agent = apex_dqn.Config(batch_size=64)
    checks.check_together(make(agent=agent), learners(2))
    assert agent.share(2) == dataclasses.replace(agent, batch_size=32)
    with pytest.raises(ValueError, match='num_learners must divide batch_size, got 3'):
        checks.check_together(make(agent=agent), learners(3))


def test_learners_of_unrolls_take_whole_ones_of_an_actor():
    agent = impala.Config(batch_size=16)
    checks.check_together(make(agent=agent), learners(2, envs_per_actor=8))
    with pytest.raises(ValueError, match='num_learners must leave .* got 2: envs_per_'):
        checks.check_together(make(agent=agent), learners(2))


def test_an_agent_without_a_batch_size_has_one_learner():
    checks.check_together(make(), learners(1))
    with pytest.raises(ValueError, match='Agent must have a field batch_size'):
        checks.check_together(make(), learners(2))


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'num_learners': 2}, 'num_learners must be 1 in threads, got 2; each needs'),
        ({'restart': ('actor',)}, 'restart must be empty in threads, got actor;'),
    ],
)
def test_what_threads_cannot_run_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        checks.check_threads(experiment_lib.Topology(**fields))


def test_environments_come_from_a_name_or_a_function():
    assert make().make_environment(0).action_spec().num_values == 3
    assert make(environment=lambda seed: seed + 1).make_environment(2) == 3
    assert make().environment_name == 'catch'
    assert make(environment=catch.Catch).environment_name == 'Catch'
    wrapped = make(environment=wrapping.Wrapped(catch.Catch, 'frame_stack=2'))
    assert wrapped.environment_name == 'Catch?frame_stack=2'
    with pytest.raises(ValueError, match='katch'):
        make(environment='katch').make_environment(0)


class Seedless:
    def __init__(self):
        pass


@pytest.mark.parametrize(
    'environment', [Seedless, wrapping.Wrapped(Seedless, 'concat=true')]
)
def test_an_environment_that_takes_no_seed_is_refused(environment):
    with pytest.raises(TypeError, match=r'of one seed, .* got Seedless\(\): .* a seed'):
        make(environment=environment)


@pytest.mark.parametrize('name', ['num_actors', 'evaluators'])
def test_one_thread_refuses_what_it_would_not_heed(name):
    with pytest.raises(ValueError, match='evaluators must be 1 in one thread, inf'):
        checks.check_one_thread(experiment_lib.Topology(**{name: 2}))
    checks.check_one_thread(experiment_lib.Topology())
