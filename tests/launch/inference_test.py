import threading
import time

import numpy as np
import pytest
import tree

from repertory.agents.impala import config as impala
from repertory.agents.r2d2 import config as r2d2
from repertory.components import actor, core, types, variables
from repertory.components.environments import seeding, vector
from repertory.launch import experiment as experiment_lib
from repertory.launch import inference, wiring

_LANES = 3
_ACTORS = 2


class Source(core.VariableSource):
    def __init__(self, values):
        self.values = values

    def get_variables(self):
        return 7, self.values


class Rows(core.Adder):
    """Keeps the rows that it is given."""

    num_items = 0

    def __init__(self):
        self.rows = []

    def add(self, row):
        self.rows.append(row)

    def flush(self):
        pass

    def close(self):
        pass


def make_experiment(name):
    module = {'r2d2': r2d2, 'impala': impala}[name]
    return experiment_lib.ExperimentConfig(
        agent=module.Config(), environment='memory_chain', seed=3
    )


def make_policies(experiment, num=_ACTORS):
    """Returns the actors' policies of one set of networks, and the specs of a lane."""
    topology = experiment_lib.Topology(num_actors=num, envs_per_actor=_LANES)
    spec = experiment.environment_spec()
    builder = experiment.builder()
    networks = experiment.make_networks(spec)
    roles = [wiring.make_role(experiment, topology, i) for i in range(num)]
    return [builder.make_policy(networks, spec, r) for r in roles], roles, spec


def make_server(policies, spec, values, max_lanes=_ACTORS * _LANES, timeout=10.0):
    client = variables.VariableClient(Source(values), policies[0].variables, 10**9)
    return inference.InferenceServer(policies, spec, _LANES, client, max_lanes, timeout)


def run(one, experiment, role, steps):
    factories = seeding.lane_factories(
        experiment.make_environment, experiment.seed, role
    )
    with vector.SerialVectorEnvironment([make() for make in factories]) as lanes:
        step = lanes.reset()
        one.observe_first(step)
        for _ in range(steps):
            action = one.select_action(step.observation)
            step = lanes.step(action)
            one.observe(action, step)


@pytest.mark.parametrize('name', ['r2d2', 'impala'])
def test_central_actors_do_exactly_what_local_ones_do(name):
    """Actions, extras, states and rows, over many episodes, exploration included."""
    experiment = make_experiment(name)
    local, roles, spec = make_policies(experiment)
    values = [v.numpy() for v in local[0].variables]
    expected = []
    for policy, role in zip(local, roles, strict=True):
        adder = Rows()
        run(actor.PolicyActor(policy, spec, _LANES, adder), experiment, role, 60)
        expected.append(adder.rows)

    remote, _, _ = make_policies(experiment)
    server = make_server(remote, spec, values)
    adders = [Rows() for _ in roles]

    def act(index):
        def ask(observation, first):
            return server.act(index, 'run', observation, first)

        one = actor.RemoteActor(ask, spec, _LANES, adders[index])
        run(one, experiment, roles[index], 60)
        assert one.version == 7

    threads = [threading.Thread(target=act, args=(i,)) for i in range(_ACTORS)]
    with server:
        server.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        statistics = server.statistics()
    assert statistics.batches == 60 and statistics.mean_batch == _ACTORS * _LANES
    for rows, adder in zip(expected, adders, strict=True):
        assert len(adder.rows) == 60
        assert any((row.step_type == types.StepType.LAST).any() for row in rows[1:])
        for row, other in zip(rows, adder.rows, strict=True):
            np.testing.assert_array_equal(row.action, other.action)
            np.testing.assert_array_equal(row.reward, other.reward)
            assert set(row.extras) == set(other.extras)
            for key in set(row.extras) - {'version'}:
                # Sums over another number of lanes may be rounded otherwise.
                tree.map_structure(
                    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
                    row.extras[key],
                    other.extras[key],
                )


def ask_once(server, index, run_id, spec, first=False):
    ones = [
        np.ones((_LANES, *leaf.shape), leaf.dtype)
        for leaf in tree.flatten(spec.observations)
    ]
    return server.act(index, run_id, ones, np.full(_LANES, first))


def test_a_new_process_of_an_actor_begins_with_the_initial_state():
    experiment = make_experiment('r2d2')
    policies, _, spec = make_policies(experiment)
    values = [v.numpy() for v in policies[0].variables]
    with make_server(policies, spec, values, max_lanes=1) as server:
        server.start()
        start = ask_once(server, 0, 'a', spec, first=True)[1]['state']
        later = ask_once(server, 0, 'a', spec)[1]['state']
        # Killed in the midst of an episode: the new process may not say FIRST.
        anew = ask_once(server, 0, 'b', spec)[1]['state']
    flat = [
        np.concatenate([x.ravel() for x in tree.flatten(s)])
        for s in (start, later, anew)
    ]
    assert np.abs(flat[1] - flat[0]).max() > 0
    np.testing.assert_array_equal(flat[2], flat[0])


def test_a_batch_is_not_waited_for_longer_than_the_time_out():
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    with make_server(policies, spec, values, timeout=0.3) as server:
        server.start()
        ask_once(server, 0, 'a', spec)  # Traces.
        begin = time.monotonic()
        ask_once(server, 0, 'a', spec)
        assert 0.29 < time.monotonic() - begin < 2.0
        assert server.statistics().mean_batch == _LANES


def test_an_actor_that_asks_again_is_answered_once():
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    failed = threading.Event()

    def give_up(server):
        with pytest.raises(RuntimeError, match='actor 0 asked again'):
            ask_once(server, 0, 'a', spec)
        failed.set()

    with make_server(policies, spec, values, timeout=1.0) as server:
        thread = threading.Thread(target=give_up, args=(server,))
        thread.start()
        while not server._waiting:
            time.sleep(0.01)
        server.start()
        ask_once(server, 0, 'a', spec)
        assert failed.wait(5)
        thread.join()
        assert server.statistics().batches == 1


def test_a_failed_batch_is_raised_by_whoever_watches():
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    with make_server(policies, spec, values, max_lanes=1) as server:
        server.start()
        with pytest.raises(ValueError):
            server.act(0, 'a', [], np.zeros(_LANES, bool))
        with pytest.raises(RuntimeError, match='no actions can be chosen'):
            server.statistics()
        with pytest.raises(RuntimeError, match='has ended'):
            ask_once(server, 0, 'a', spec)
