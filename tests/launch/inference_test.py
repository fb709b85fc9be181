import asyncio
import contextlib
import pickle
import threading
import time
from concurrent import futures

import numpy as np
import pytest
import tree

from repertory.agents.impala import config as impala
from repertory.agents.r2d2 import config as r2d2
from repertory.components import actor, core, types, variables
from repertory.components.environments import seeding, vector
from repertory.launch import channels, inference, remote, wiring
from repertory.launch import experiment as experiment_lib

_LANES = 3
_ACTORS = 2


class Source(core.VariableSource):
    def __init__(self, values):
        self.values = values

    def get_variables(self):
        return 7, self.values


class Control:
    """Stands for a node's; goes on for ever."""

    def wait(self, reason, waited_seconds):
        assert reason == 'actions from the inference server'


class Client:
    """Stands for a channel's; loses the answers to the calls numbered in `lost`."""

    def __init__(self, server, lost=()):
        self._server = server
        self._lost = lost
        self._pool = futures.ThreadPoolExecutor(1)
        self.calls = 0

    def act(self, packed):
        number, self.calls = self.calls, self.calls + 1

        def call():
            answer = pickle.dumps(act(self._server, *pickle.loads(packed)))
            if number in self._lost:
                raise RuntimeError('Deadline Exceeded')
            return answer

        return self._pool.submit(call).result


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


@contextlib.contextmanager
def make_server(policies, spec, values, max_lanes=_ACTORS * _LANES, timeout=10.0):
    client = variables.VariableClient(Source(values), policies[0].variables, 10**9)
    with channels.Server(None) as near:
        with inference.InferenceServer(
            policies, spec, _LANES, client, max_lanes, timeout, near.loop
        ) as server:
            yield server


def act(server, *arguments):
    """Returns what `server.act` does, in the test's thread."""
    if server._closed and server._loop.is_closed():
        raise RuntimeError('what was asked for last came too late')
    answer = asyncio.run_coroutine_threadsafe(server.act(*arguments), server._loop)
    return answer.result(timeout=60)


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

    served, _, _ = make_policies(experiment)
    adders = [Rows() for _ in roles]

    def play(server, index):
        ask = remote.RemoteInference(Client(server), Control(), index, 'run')
        one = actor.AskingActor(ask, spec, _LANES, adders[index])
        run(one, experiment, roles[index], 60)
        assert one.version == 7

    with make_server(served, spec, values) as server:
        threads = [
            threading.Thread(target=play, args=(server, i)) for i in range(_ACTORS)
        ]
        server.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        statistics = server.statistics()
    # All but those before the other has first asked, or while it is held up, are full.
    # Each asks for one more than it takes.
    assert 60 <= statistics.lanes / (_ACTORS * _LANES) <= 61
    assert statistics.mean_batch > 0.8 * _ACTORS * _LANES
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


def ask_once(server, index, run_id, step, spec, first=False):
    ones = [
        np.ones((_LANES, *leaf.shape), leaf.dtype)
        for leaf in tree.flatten(spec.observations)
    ]
    return act(server, index, run_id, step, ones, np.full(_LANES, first))


def wait_for_request(server):
    end = time.monotonic() + 20
    while 0 not in server._newest:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_whoever_is_not_answered_in_time_is_told_and_may_ask_again(monkeypatch):
    monkeypatch.setattr(inference, '_ANSWER_SECONDS', 0.1)
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    with make_server(policies, spec, values, max_lanes=1) as server:
        for _ in range(3):  # The server is not started.
            with pytest.raises(
                TimeoutError, match='step 0 of actor 0 must be answered'
            ):
                ask_once(server, 0, 'a', 0, spec)
        monkeypatch.undo()
        with pytest.raises(ValueError, match='step must be 0 for actor 0 .*, got 1'):
            ask_once(server, 0, 'a', 1, spec)  # Before the last one was answered.
        server.start()
        ask_once(server, 0, 'a', 0, spec)
        assert server.statistics().batches == 1


def test_a_new_process_of_an_actor_begins_with_the_initial_state():
    experiment = make_experiment('r2d2')
    policies, _, spec = make_policies(experiment)
    values = [v.numpy() for v in policies[0].variables]
    with make_server(policies, spec, values, max_lanes=1) as server:
        server.start()
        start = ask_once(server, 0, 'a', 0, spec, first=True)[1]['state']
        later = ask_once(server, 0, 'a', 1, spec)[1]['state']
        # Killed in the midst of an episode: the new process may not say FIRST.
        anew = ask_once(server, 0, 'b', 0, spec)[1]['state']
    flat = [
        np.concatenate([x.ravel() for x in tree.flatten(s)])
        for s in (start, later, anew)
    ]
    assert np.abs(flat[1] - flat[0]).max() > 0
    np.testing.assert_array_equal(flat[2], flat[0])


def test_an_answer_that_was_lost_is_given_again_and_the_state_advances_once():
    experiment = make_experiment('r2d2')
    rows = []
    for lost in ((), (0, 7, 8, 30)):
        policies, roles, spec = make_policies(experiment)
        rng = np.random.default_rng(1)
        values = [
            rng.normal(size=v.shape).astype(np.float32) for v in policies[0].variables
        ]
        adder = Rows()
        with make_server(policies, spec, values, max_lanes=1) as server:
            server.start()
            client = Client(server, lost)
            ask = remote.RemoteInference(client, Control(), 0, 'run')
            run(actor.AskingActor(ask, spec, _LANES, adder), experiment, roles[0], 40)
        # One more than it takes is asked for.
        assert server.statistics().batches in (40, 41)
        assert client.calls >= 41 + len(lost)
        rows.append(adder.rows)
    for one, other in zip(*rows, strict=True):
        tree.map_structure(np.testing.assert_array_equal, one, other)


def test_a_step_that_is_asked_for_twice_at_once_is_taken_once():
    policies, _, spec = make_policies(make_experiment('r2d2'))
    values = [v.numpy() for v in policies[0].variables]
    answers = []
    with make_server(policies, spec, values) as server:
        threads = [
            threading.Thread(
                target=lambda: answers.append(ask_once(server, 0, 'a', 0, spec))
            )
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        wait_for_request(server)
        server.start()
        for thread in threads:
            thread.join(timeout=60)
        assert server.statistics().batches == 1
    tree.map_structure(np.testing.assert_array_equal, *answers)


def test_steps_that_cannot_be_are_refused():
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    with make_server(policies, spec, values, max_lanes=1) as server:
        server.start()
        for step in range(3):
            ask_once(server, 0, 'a', step, spec)
        for step in (0, 1, 4):
            with pytest.raises(
                ValueError,
                match=f'step must be 3 for actor 0 of process a, got {step}; it is a '
                'call that was given up',
            ):
                ask_once(server, 0, 'a', step, spec)
        ask_once(server, 0, 'b', 0, spec)
        with pytest.raises(ValueError, match='step must be 0 for .* a, got 3'):
            ask_once(server, 0, 'a', 3, spec)  # On its way since before it died.
        with pytest.raises(ValueError, match=r'actor must be in \[0, 2\), got 2; are'):
            ask_once(server, 2, 'a', 0, spec)


def test_a_server_that_is_new_takes_up_actors_where_they_are():
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    with make_server(policies, spec, values, max_lanes=1) as server:
        server.start()
        ask_once(server, 0, 'a', 17, spec)
        ask_once(server, 0, 'a', 18, spec)
        assert server.statistics().batches == 2


def test_actors_that_ask_no_more_are_not_waited_for():
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    with make_server(policies, spec, values, timeout=30.0) as server:
        server.start()
        for step in range(20):  # The other actor has never asked.
            ask_once(server, 0, 'a', step, spec)
        both = [
            threading.Thread(target=ask_once, args=(server, i, run, step, spec))
            for i, run, step in ((0, 'a', 20), (1, 'b', 0))
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(timeout=10)
            assert not thread.is_alive()
        time.sleep(inference._ALIVE_SECONDS)
        begin = time.monotonic()
        ask_once(server, 0, 'a', 21, spec)
        assert time.monotonic() - begin < 10.0


def test_an_actor_that_falls_silent_meanwhile_is_waited_for_no_longer():
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    with make_server(policies, spec, values, timeout=60.0) as server:
        server.start()
        ask_once(server, 1, 'a', 0, spec)
        begin = time.monotonic()
        ask_once(server, 0, 'a', 0, spec)  # Waits for the other as long as it is alive.
        assert 0.5 < time.monotonic() - begin < 20.0
        assert server.statistics().batches == 2


def test_a_batch_is_not_waited_for_longer_than_the_time_out():
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    with make_server(policies, spec, values, timeout=0.3) as server:
        server.start()
        ask_once(server, 1, 'a', 0, spec)  # It is known now, and waited for.
        begin = time.monotonic()
        ask_once(server, 0, 'a', 0, spec)
        assert 0.29 < time.monotonic() - begin < 5.0
        assert server.statistics().mean_batch == _LANES


def test_the_process_that_replaces_an_actor_is_answered_and_the_old_one_refused():
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    refused = []

    def ask_first(server):
        with pytest.raises(
            RuntimeError, match='actor 0 must be one process, got b while a waits'
        ):
            ask_once(server, 0, 'a', 0, spec)
        refused.append(True)

    with make_server(policies, spec, values) as server:
        old = threading.Thread(target=ask_first, args=(server,))
        old.start()
        wait_for_request(server)
        new = threading.Thread(target=ask_once, args=(server, 0, 'b', 0, spec))
        new.start()
        old.join(timeout=60)
        assert refused
        server.start()
        new.join(timeout=60)
        assert server.statistics().batches == 1


def test_an_observation_of_another_kind_is_refused_and_others_are_answered():
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    first = np.zeros(_LANES, bool)
    [leaf] = tree.flatten(spec.observations)
    with make_server(policies, spec, values, max_lanes=1) as server:
        server.start()
        for wrong in (
            [],
            [np.zeros((_LANES + 1, *leaf.shape), leaf.dtype)],
            [np.zeros((_LANES, *leaf.shape), np.float64)],
        ):
            with pytest.raises(
                ValueError, match='observation of actor 0 must have the leaves'
            ):
                act(server, 0, 'a', 0, wrong, first)
        ask_once(server, 0, 'a', 0, spec)
        assert server.statistics().batches == 1


def test_a_failed_batch_is_raised_by_whoever_watches(monkeypatch):
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]

    def fail(*unused):
        raise FloatingPointError('NaN')

    with make_server(policies, spec, values, max_lanes=1) as server:
        server.start()
        monkeypatch.setattr(server, '_policy', fail)
        fail.num_roles, fail.no_state = _ACTORS, []
        with pytest.raises(FloatingPointError):
            ask_once(server, 0, 'a', 0, spec)
        with pytest.raises(
            RuntimeError, match='each batch must be answered, got FloatingPointError'
        ):
            server.statistics()
        with pytest.raises(
            RuntimeError, match='must be serving to answer actor 0, got failed'
        ):
            ask_once(server, 0, 'a', 1, spec)


def test_a_closed_server_refuses_who_waits_and_who_comes():
    policies, _, spec = make_policies(make_experiment('impala'))
    values = [v.numpy() for v in policies[0].variables]
    refused = []

    def ask(server):
        with pytest.raises(RuntimeError, match='must be serving to answer, got closed'):
            ask_once(server, 0, 'a', 0, spec)
        refused.append(True)

    with make_server(policies, spec, values) as server:
        waiting = threading.Thread(target=ask, args=(server,))
        waiting.start()  # In vain: the server is not started.
        wait_for_request(server)
        server.close()
        waiting.join(timeout=60)
        assert refused
        with pytest.raises(
            RuntimeError, match='must be serving to answer actor 0, got closed'
        ):
            ask_once(server, 0, 'a', 0, spec)


def test_an_actor_gives_a_server_up_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(remote, '_GIVE_UP_SECONDS', 0.0)

    class Dead:
        _loop, _closed = None, False

        def act(self, *arguments):
            raise RuntimeError('Deadline Exceeded')

    ask = remote.RemoteInference(Client(Dead()), Control(), 3, 'run')
    with pytest.raises(
        RuntimeError,
        match='inference server must answer actor 3 within 0 s, got no answer to step '
        '0 in 0 s: Deadline Exceeded',
    ):
        ask([np.zeros(1)], np.zeros(1, bool))()


def test_both_ends_are_closed_in_a_row_while_an_actor_waits():
    policies, _, spec = make_policies(make_experiment('impala'))
    client = variables.VariableClient(Source([]), policies[0].variables, 10**9)
    ones = [
        np.ones((_LANES, *leaf.shape), leaf.dtype)
        for leaf in tree.flatten(spec.observations)
    ]

    async def answer(packed):
        return pickle.dumps(await server.act(*pickle.loads(packed)))

    class Node:
        def channel(self):
            return near.name

    with channels.Server(answer) as near:
        server = inference.InferenceServer(
            policies, spec, _LANES, client, 1, 10.0, near.loop
        )
        asked = 0, 'a', 0, ones, np.zeros(_LANES, bool)
        wait = channels.Client(Node()).act(pickle.dumps(asked))
        wait_for_request(server)
        server.close()
    assert not near._thread.is_alive()
    with pytest.raises((EOFError, OSError, RuntimeError)):
        wait()
