"""An experiment and a topology as a Launchpad program.

Each node's function runs in the node's own process, and builds there what
`launch/wiring.py` says. The program is an ordinary one: nodes may be added to it, and
`launcher.launch` or `lp.launch` runs it.
"""

from __future__ import annotations

import dataclasses
import glob
import itertools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import launchpad as lp

from repertory.components import core
from repertory.launch import (
    checks,
    experiment,
    learners,
    nodes,
    progress,
    relays,
    restarts,
)

_CALL_SECONDS = 10.0
_GPUS = '/dev/nvidia[0-9]*'


def make_program(
    config: experiment.ExperimentConfig,
    topology: experiment.Topology,
    run_dir: str | os.PathLike,
    resume: bool = False,
) -> lp.Program:
    """Returns the program; nothing runs yet.

    Its groups: coordinator, replay, learner, actor, evaluator, maybe inference, maybe
    relay; with `topology.replay == 'learner'` the learner's node serves replay too.

    Args:
        config: what is run.
        topology: how many nodes of each kind.
        run_dir: takes checkpoints, logs and the status; must exist.
        resume: whether to continue from the newest checkpoint in `run_dir`.

    Raises:
        ValueError: if the experiment and the topology do not fit each other.
    """
    checks.check_together(config, topology)
    plan = nodes.Plan(config, topology, str(pathlib.Path(run_dir).absolute()), resume)
    program = lp.Program(config.environment_name)
    replay_roles = [f'replay_{i}' for i in range(topology.replay_shards)]
    addresses = [lp.Address() for _ in replay_roles]
    actor_roles = _names(topology.num_actors)
    evaluator_roles = _names(topology.evaluators, evaluation=True)
    relay_roles = [f'relay_{i}' for i in range(topology.variable_relays)]
    learner_roles = ['learner', *_follower_roles(topology)]
    roles = [*replay_roles, *learner_roles, *relay_roles]
    roles += [*evaluator_roles, *actor_roles]
    roles += ['inference'] * (topology.inference == 'central')
    patience = progress.RESTARTING if topology.restart else progress.STANDARD
    told = progress.budget_of(config), roles, plan.run_dir, resume, patience
    counter = lp.CourierNode(nodes.CoordinatorNode, *told)
    counter.role = 'coordinator'
    coordinator_handle = program.add_node(counter, label='coordinator')
    coordinator_handle.set_client_kwargs(call_timeout=_CALL_SECONDS)

    if topology.replay == 'separate':
        for role, address in zip(replay_roles, addresses, strict=True):
            node = lp.PyNode(nodes.run_replay, plan, role, address, coordinator_handle)
            node.role = role
            address.assign(node)
            program.add_node(node, label='replay')

    learner_handle = _add_learners(program, plan, addresses, coordinator_handle)
    handles = learner_handle, coordinator_handle
    _add_actors(program, plan, addresses, handles, relay_roles)
    for index, role in enumerate(evaluator_roles):
        node = lp.PyNode(nodes.run_evaluator, plan, index, *handles)
        node.role = role
        program.add_node(node, label='evaluator')
    for group, members in program.groups.items():
        for node in members:
            node.forked = group != 'coordinator' and not _has_gpu(group, topology)
    return program


def _has_gpu(group: str, topology: experiment.Topology) -> bool:
    """Returns whether the group may use one of this machine.

    Such a node is not forked: that has not been tried with CUDA's libraries.
    """
    return group in topology.gpu_groups and bool(glob.glob(_GPUS))


def _names(number: int, evaluation: bool = False) -> list[str]:
    roles = [core.Role(actor_index=i, evaluation=evaluation) for i in range(number)]
    return [role.name for role in roles]


def _add_relay(program: lp.Program, role: str, learner: Any, coordinator: Any) -> Any:
    """Adds a relay of the learner's parameters, and returns its handle."""
    node = lp.CourierNode(relays.RelayNode, role, learner, coordinator)
    node.role = role
    handle = program.add_node(node, label='relay')
    handle.set_client_kwargs(call_timeout=_CALL_SECONDS)
    return handle


def _follower_roles(topology: experiment.Topology) -> list[str]:
    return [f'learner_{rank}' for rank in range(1, topology.num_learners)]


def _add_learners(
    program: lp.Program,
    plan: nodes.Plan,
    addresses: Sequence[lp.Address],
    coordinator: Any,
) -> Any:
    """Adds the learners' nodes; returns the handle of the first, which is asked."""
    followers = _follower_roles(plan.topology)
    meeting = [lp.Address() for _ in ('learner', *followers)] if followers else []
    node = lp.CourierNode(learners.LearnerNode, plan, addresses, meeting, coordinator)
    node.role = 'learner'
    for address in addresses if plan.topology.replay == 'learner' else ():
        address.assign(node)
    for address in meeting[:1]:
        address.assign(node)
    handle = program.add_node(node, label='learner')
    handle.set_client_kwargs(call_timeout=_CALL_SECONDS)
    for rank, role in enumerate(followers, 1):
        told = plan, rank, addresses, meeting, coordinator
        node = lp.PyNode(learners.run_follower, *told)
        node.role, node.own_process = role, True
        meeting[rank].assign(node)
        program.add_node(node, label='learner')
    return handle


def _add_actors(
    program: lp.Program,
    plan: nodes.Plan,
    addresses: Sequence[lp.Address],
    handles: tuple[Any, Any],
    relay_roles: Sequence[str],
) -> None:
    """Adds the actors' nodes, and what stands between them and the learner."""
    topology = plan.topology
    inference_handle = None
    if topology.inference == 'central':
        inference = lp.CourierNode(
            nodes.InferenceNode,
            plan,
            *handles,
            # A call blocks until its batch is done, at most 2 s; actors call each 1 s.
            courier_kwargs={'thread_pool_size': 3 * topology.num_actors + 4},
        )
        inference.role = 'inference'
        inference_handle = program.add_node(inference, label='inference')
        inference_handle.set_client_kwargs(call_timeout=1.0)
    learner, coordinator = handles
    passed_on = [_add_relay(program, role, *handles) for role in relay_roles]
    sources = itertools.cycle(passed_on or [learner])
    for first in range(0, topology.num_actors, topology.actors_per_process):
        indices = range(topology.num_actors)[
            first : first + topology.actors_per_process
        ]
        own = {index: addresses[index % len(addresses)] for index in indices}
        served = next(sources), coordinator, inference_handle
        node = lp.PyNode(nodes.run_actors, plan, own, *served)
        node.roles = [core.Role(actor_index=index).name for index in indices]
        node.role = '-'.join(dict.fromkeys((node.roles[0], node.roles[-1])))
        program.add_node(node, label='actor')


def restart_policies(
    topology: experiment.Topology,
) -> dict[str, restarts.RestartPolicy]:
    """Returns which groups are restarted, and how often; several learners as one."""
    policies = dict.fromkeys(topology.restart, topology.restart_policy)
    if topology.num_learners > 1 and 'learner' in policies:
        fields = dataclasses.asdict(topology.restart_policy)
        policies['learner'] = restarts.TogetherPolicy(**fields)
    return policies


def process_environments(
    config: experiment.ExperimentConfig, topology: experiment.Topology
) -> dict[str, dict[str, str]]:
    """Returns the environment variables for the processes of each group.

    Actors and evaluators use one thread each, or they would fight for the cores; the
    GPU is hidden from all groups but `topology.gpu_groups`; and oneDNN's kernels are on
    where the networks need them.
    """
    hidden = {'CUDA_VISIBLE_DEVICES': '-1'}
    single = {
        name: '1'
        for name in (
            'OMP_NUM_THREADS',
            'TF_NUM_INTRAOP_THREADS',
            'TF_NUM_INTEROP_THREADS',
        )
    }
    environments = {
        'coordinator': {**hidden, **single},
        'replay': hidden,
        'relay': {**hidden, **single},
        'learner': hidden,
        'inference': hidden,
        'actor': {**hidden, **single},
        'evaluator': {**hidden, **single},
    }
    for group in topology.gpu_groups:
        environments[group] = {
            name: value
            for name, value in environments[group].items()
            if name not in hidden
        }
    kernels = config.kernel_variables()
    return {group: {**own, **kernels} for group, own in environments.items()}
