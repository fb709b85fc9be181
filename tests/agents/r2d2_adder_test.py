"""R2D2's adder and table: states as the actor had them, and its priorities."""

import dataclasses

import numpy as np
import tensorflow as tf
import tree

from repertory.agents.r2d2 import builder, loss
from repertory.components import actor, core, environment_loop, specs, types
from repertory.components.environments import vector
from repertory.components.networks import heads, memory, torsos
from repertory.replay import datasets, rows, server, tables
from repertory.replay.adders import sequence
from tests import cores, fakes
from tests.agents import r2d2_fakes

# Lengths below and above the trace; lanes that are out of step.
EPISODES = [[1.0, -2.0], [0.5], list(range(1, 24)), [0.1] * 7, [3.0, 2.0, 1.0] * 5]


def scripted_lanes(agent):
    return vector.SerialVectorEnvironment(
        [
            agent.wrap_environment(
                fakes.ScriptedEnvironment(
                    EPISODES[i:] + EPISODES[:i], [True, False, True, False, True]
                )
            )
            for i in range(3)
        ]
    )


def run(environment, policy, adder, num_steps):
    acting = actor.PolicyActor(policy, environment.spec, environment.num_lanes, adder)
    loop = environment_loop.EnvironmentLoop(environment, acting, lambda episode: None)
    for _ in range(num_steps):
        loop.step()
    adder.flush()


def test_the_learner_unrolls_to_what_the_actor_computed():
    agent = r2d2_fakes.make_config()
    environment = scripted_lanes(agent)
    spec = environment.spec
    torso = torsos.ActionRewardTorso(torsos.MLP((8,)))
    network = memory.RecurrentNetwork(
        torso, cores.HalfState(8), heads.DuelingHead(2, (8,))
    )
    zeros = tree.map_structure(tf.constant, specs.zeros(spec.observations, 1))
    network.step(zeros, network.initial_state(1))
    r2d2_fakes.noisy(network)
    one = builder.Builder(agent)
    networks = builder.networks.Networks(q=network)
    policy = one.make_policy(networks, spec, core.Role(num_lanes=3, seed=1))
    # As the builder's, but that the row keeps what the actor computed.
    codec = rows.RowCodec(rows.make_row_spec(spec, policy.extras_spec, ['q_taken']))
    state_codec = rows.make_state_codec(policy.initial_state(1))
    length = agent.sequence_length
    signature = tables.signature(codec, length, state_codec)
    [table] = one.make_table_specs(spec, policy, 3)
    table = dataclasses.replace(table, signature=signature)
    with server.ReplayServer([table]) as replay:
        with sequence.SequenceAdder(
            replay.address, builder.TABLE, codec, 3, 6, 4, 3, fakes.no_wait, state_codec
        ) as adder:
            run(environment, policy, adder, 120)
            assert adder.num_items > 50
        dataset = datasets.make_trajectory_dataset(
            [replay.address], builder.TABLE, codec, length, 16, 1, False, state_codec
        )
        iterator = iter(dataset)
        samples = [next(iterator) for _ in range(12)]
    samples = tree.map_structure(lambda *x: np.concatenate([y[0] for y in x]), *samples)
    unique = np.unique(samples.info.key, return_index=True)[1]
    assert len(unique) >= 50
    data: types.Trajectory = tree.map_structure(lambda x: x[unique], samples.data)
    step_type = data.rows.step_type
    starts_inside = (step_type == types.StepType.MID)[:, 0]
    assert starts_inside.sum() >= 10 and (~starts_inside).sum() >= 10
    rows_ = tree.map_structure(lambda x: np.swapaxes(x, 0, 1), data.rows)
    reset = rows_.step_type == types.StepType.FIRST
    real = rows_.step_type != types.StepType.PADDING

    def errors(state, burn_in):
        q = network.unroll(rows_.observation, state, tf.constant(reset), burn_in)
        q = tf.gather(q, rows_.action[burn_in:], batch_dims=2).numpy()
        error = np.abs(q - rows_.extras['q_taken'][burn_in:])
        return np.where(real[burn_in:], error, 0.0)

    for burn_in in (0, 3):
        assert errors(data.state, burn_in).max() < 1e-5
    # What it must not be: the initial state inside an episode, another row's state.
    initial = network.initial_state(len(unique))
    wrong = errors(initial, 0)[0]
    assert np.median(wrong[starts_inside]) > 0.01
    assert wrong[~starts_inside].max() < 1e-5
    shifted = tree.map_structure(lambda x: np.roll(x, 1, axis=0), data.state)
    assert errors(shifted, 0).max() > 1e-3
    # Every episode began at the network's initial state, the second one as the first.
    for leaf in data.state:
        assert (leaf[~starts_inside] == 0.5).all()
    assert (
        len(np.unique(data.rows.observation['observation'][~starts_inside, 3, 0])) > 5
    )


def test_an_actors_priority_is_what_the_learner_would_compute():
    agent = r2d2_fakes.make_config()
    environment = scripted_lanes(agent)
    one = builder.Builder(agent)
    role = core.Role(num_lanes=3, seed=5)
    networks = one.make_networks(environment.spec)
    r2d2_fakes.noisy(networks.q)
    policy = one.make_policy(networks, environment.spec, role)
    specs_ = one.make_table_specs(environment.spec, policy, 3)
    with server.ReplayServer(specs_) as replay:
        with one.make_adder(
            replay.address, environment.spec, policy, role, fakes.no_wait
        ) as adder:
            run(environment, policy, adder, 80)
            assert adder.num_items > 40
        iterator = iter(
            one.make_dataset(
                [replay.address], environment.spec, policy, 3, prefetch=False
            )
        )
        keys = set()
        for _ in range(8):
            sample = tree.map_structure(lambda x: x[0], next(iterator))
            output = loss.sequence_loss(networks, networks, sample, agent)
            np.testing.assert_allclose(
                output.priorities, sample.info.priority, rtol=1e-4, atol=1e-5
            )
            keys.update(sample.info.key.numpy().tolist())
    assert len(keys) > 30
