"""IMPALA's adder and queue: whole unrolls with their states, each learned once."""

import collections
import threading

import numpy as np
import pytest
import tensorflow as tf
import tree

from repertory.agents.impala import builder, networks
from repertory.components import actor, core, environment_loop, types
from repertory.components.environments import vector
from repertory.components.networks import heads, memory, observations, torsos
from repertory.replay import prefetching, server
from tests import cores, fakes
from tests.agents import impala_fakes

FIRST, MID, LAST = types.StepType.FIRST, types.StepType.MID, types.StepType.LAST


def scripted_lanes(num_lanes):
    # Lanes out of step, with truncated and terminated ends, and an episode of a step.
    episodes = [[1.0, -2.0], [0.5], [1, 2, 3, 4, 5, 6, 7], [0.1, 0.2, 0.3]]
    return vector.SerialVectorEnvironment(
        [
            fakes.ScriptedEnvironment(episodes[i:] + episodes[:i], [True, False] * 2)
            for i in range(num_lanes)
        ]
    )


def unrolls_of(agent, environment, made, num_items):
    """Acts with the networks `made`; returns samples of `num_items` items in all."""
    one, lanes = builder.Builder(agent), environment.num_lanes
    policy = one.make_policy(made, environment.spec, core.Role(num_lanes=lanes, seed=3))
    tables = one.make_table_specs(environment.spec, policy, lanes)
    samples = []
    with server.ReplayServer(tables) as replay:
        role = core.Role(num_lanes=lanes)
        with one.make_adder(
            replay.address, environment.spec, policy, role, fakes.no_wait
        ) as adder:
            acting = actor.PolicyActor(policy, environment.spec, lanes, adder)
            loop = environment_loop.EnvironmentLoop(environment, acting, lambda _: None)
            dataset = iter(
                one.make_dataset(
                    [replay.address], environment.spec, policy, lanes, False
                )
            )
            items_per_call = agent.batch_size // lanes
            while len(samples) * items_per_call < num_items:
                for _ in range(agent.unroll_length):
                    loop.step()
                adder.flush()
                if adder.num_items >= (len(samples) + 1) * items_per_call:
                    samples.append(tree.map_structure(lambda x: x[0], next(dataset)))
    return samples


@pytest.mark.parametrize('core_name', ['none', 'lstm'])
def test_the_learners_unroll_gives_the_actors_logits(core_name):
    agent = impala_fakes.make_config(core=core_name, batch_size=6, unroll_length=5)
    environment = scripted_lanes(3)
    made = builder.Builder(agent).make_networks(environment.spec)
    if core_name == 'lstm':
        network = memory.RecurrentNetwork(
            torsos.MLP([8]),
            cores.HalfState(8),
            heads.PolicyValueHead(impala_fakes.ACTIONS),
        )
        network.step(tf.zeros([1, 2]), network.initial_state(1))
        made = networks.Networks(policy_value=network)
    samples = unrolls_of(agent, environment, made, num_items=18)
    kinds = set()
    for sample in samples:
        rows = observations.time_major(sample.data.rows)
        logits, _ = made.policy_value.unroll(
            rows.observation, sample.data.state, rows.step_type == FIRST
        )
        np.testing.assert_allclose(logits, rows.extras['logits'], atol=1e-5)
        kinds.update(rows.step_type[0].numpy().tolist())
    assert kinds == {FIRST, MID, LAST}  # Some unrolls begin amid an episode.
    assert sum(sample.data.rows.step_type.shape[0] for sample in samples) >= 50


def test_unrolls_overlap_by_one_row_and_leave_none_out():
    agent = impala_fakes.make_config(batch_size=4, unroll_length=3)
    environment = scripted_lanes(2)
    made = builder.Builder(agent).make_networks(environment.spec)
    tags = collections.defaultdict(list)
    for sample in unrolls_of(agent, environment, made, num_items=20):
        assert sample.info.key.shape == (2,)
        for i, unroll in enumerate(sample.data.rows.observation.numpy()):
            tags[i % 2].append(unroll)
    for unrolls in tags.values():
        for before, after in zip(unrolls, unrolls[1:], strict=False):
            np.testing.assert_array_equal(before[-1], after[0])
        rows = np.concatenate([unroll[:-1] for unroll in unrolls]).tolist()
        assert rows == sorted(rows) and len({tuple(row) for row in rows}) == len(rows)


@pytest.mark.parametrize('pause', [1.5, pytest.param(10.0, marks=pytest.mark.slow)])
def test_actors_wait_while_the_learner_pauses_and_no_unroll_is_lost(pause):
    agent = impala_fakes.make_config(batch_size=2, max_queue_size=8, unroll_length=4)
    one, spec = builder.Builder(agent), scripted_lanes(1).spec
    made = one.make_networks(spec)
    blocked = [threading.Event() for _ in range(2)]
    unrolls = 12
    steps = [0, 0]

    def act(index, address):
        def wait(reason, waited_seconds):
            assert '4 of 4 items' in reason
            assert waited_seconds < 60
            if waited_seconds >= pause:
                blocked[index].set()

        environment = scripted_lanes(2)
        role = core.Role(actor_index=index, num_actors=2, num_lanes=2, seed=index)
        policy = one.make_policy(made, environment.spec, role)
        with one.make_adder(address, spec, policy, role, wait) as adder:
            acting = actor.PolicyActor(policy, spec, 2, adder)
            loop = environment_loop.EnvironmentLoop(environment, acting, lambda _: None)
            while steps[index] < unrolls * agent.unroll_length + 1:
                loop.step()
                steps[index] += 1
            adder.flush()

    policy = one.make_policy(made, spec, core.Role(num_lanes=2))
    with server.ReplayServer(one.make_table_specs(spec, policy, 2)) as replay:
        actors = [
            threading.Thread(target=act, args=(i, replay.address)) for i in range(2)
        ]
        for thread in actors:
            thread.start()
        dataset = one.make_dataset([replay.address], spec, policy, 2, prefetch=True)
        with prefetching.Prefetcher(dataset, fakes.no_wait) as learner:
            for event in blocked:
                assert event.wait(timeout=40)
            statistics = replay.statistics()[0]
            assert statistics.size == 4
            # Three batches ahead, and two unrolls in each actor's hands.
            assert statistics.samples <= 3
            assert sum(steps) <= (4 + 3 + 2 * 2) * agent.unroll_length + 2
            samples = [next(learner) for _ in range(2 * unrolls)]
        for thread in actors:
            thread.join(timeout=40)
            assert not thread.is_alive()
        statistics = replay.statistics()[0]
    keys = np.concatenate([sample.info.key.numpy().ravel() for sample in samples])
    assert len(set(keys.tolist())) == len(keys) == 2 * unrolls
    assert (statistics.inserts, statistics.samples) == (2 * unrolls, 2 * unrolls)
    assert statistics.measured_samples_per_insert == 1.0
    # Both actors saw the same episodes, lane by lane: each unroll is there twice.
    begun = collections.Counter(
        tuple(unroll[0].tolist())
        for sample in samples
        for unroll in sample.data.rows.observation[0].numpy()
    )
    assert sum(begun.values()) == 2 * 2 * unrolls
    assert all(count % 2 == 0 for count in begun.values())
