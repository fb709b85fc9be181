"""One of two learners that learn as one; `collectives_test` runs it twice.

`python -m tests.components.ranks RANK ADDRESSES FILE` writes what it saw to FILE.
"""

from __future__ import annotations

import dataclasses
import socket
import sys
import threading

import dm_env.specs
import numpy as np
import tensorflow as tf
import tree

from repertory.agents.apex_dqn import builder as apex_dqn
from repertory.agents.apex_dqn import config as apex_dqn_config
from repertory.agents.apex_dqn import loss as apex_dqn_loss
from repertory.agents.impala import builder as impala
from repertory.agents.impala import config as impala_config
from repertory.agents.impala import loss as impala_loss
from repertory.components import (
    collectives,
    core,
    joint_samples,
    learner,
    optimizers,
    specs,
    types,
)

SIZE, BATCH, UPDATES, CALLS = 2, 8, 2, 10
ACTIONS = 3
SPEC = specs.EnvironmentSpec(
    observations=dm_env.specs.Array((4,), np.float32),
    actions=dm_env.specs.DiscreteArray(ACTIONS),
    rewards=dm_env.specs.Array((), np.float32),
    discounts=dm_env.specs.BoundedArray((), np.float32, 0, 1),
)


class Recorder(optimizers.Adam):
    """Adam that keeps the last gradients it was given."""

    def _initial_slots(self):
        return {**super()._initial_slots(), 'seen': 0.0}

    def _update(self, variable, gradient, rate, slots):
        slots['seen'].assign(gradient)
        super()._update(variable, gradient, rate, slots)

    @property
    def seen(self):
        return np.concatenate([v.numpy().ravel() for v in self._slots['seen']])


def apex_dqn_sample(call):
    """Returns a whole batch whose probabilities differ much between its halves."""
    random = np.random.default_rng(call)
    shape = UPDATES, BATCH

    def normal(*more):
        return tf.constant(random.normal(size=(*shape, *more)), tf.float32)

    share = np.where(np.arange(BATCH) < BATCH // SIZE, 1.0, 0.05)
    probability = tf.constant(random.uniform(0.1, 1.0, shape) * share)
    transition = types.Transition(
        observation=normal(4),
        action=tf.constant(random.integers(ACTIONS, size=shape), tf.int32),
        reward=normal(),
        discount=tf.constant(random.uniform(size=shape), tf.float32),
        next_observation=normal(4),
        extras={},
    )
    return types.Sample(_info(random, probability), transition)


def impala_sample(call):
    """Returns a whole batch of unrolls, some of which hold an episode's end."""
    random = np.random.default_rng(call)
    shape = UPDATES, BATCH, 6
    step_type = random.choice(
        np.array([types.StepType.MID] * 4 + [types.StepType.LAST], np.uint8), shape
    )
    rows = types.Row(
        observation=tf.constant(random.normal(size=(*shape, 4)), tf.float32),
        action=tf.constant(random.integers(ACTIONS, size=shape), tf.int32),
        reward=tf.constant(random.normal(size=shape), tf.float32),
        discount=tf.ones(shape),
        step_type=tf.constant(step_type),
        extras={
            'logits': tf.constant(random.normal(size=(*shape, ACTIONS)), tf.float32),
            'version': tf.zeros(shape, tf.int64),
        },
    )
    info = _info(random, tf.ones(shape[:2], tf.float64))
    return types.Sample(info, types.Trajectory(rows, ()))


def _info(random, probability):
    keys = random.integers(2**60, size=probability.shape, dtype=np.uint64)
    ones = tf.ones(probability.shape, tf.float64)
    return types.SampleInfo(
        tf.constant(keys), probability, tf.cast(ones, tf.int64), ones
    )


def part_of(sample, rank):
    """Returns the share of one rank, of equal size."""
    first, size = rank * BATCH // SIZE, BATCH // SIZE
    return tree.map_structure(lambda x: x[:, first : first + size], sample)


@dataclasses.dataclass
class Case:
    """An agent's learner, on made-up batches."""

    builder: object
    config: object
    loss: object
    sample: object
    network: str
    summed: bool

    def make(self, seed, samples):
        """Returns a learner, the variables that it trains, and its optimizer."""
        tf.random.set_seed(seed)
        online, target = (self.builder.make_networks(SPEC) for _ in range(2))
        module = getattr(online, self.network)
        optimizer = Recorder(1e-2)
        made = learner.SGDLearner(
            loss=self.loss,
            online=online,
            target=target,
            trained=[module],
            acting=[module],
            targets=[(module, getattr(target, self.network))],
            config=Config(**dataclasses.asdict(self.config)),
            optimizer=optimizer,
            samples=samples,
            summed=self.summed,
        )
        return made, module.trainable_variables, optimizer


class Config:
    """An agent's, with target copies for IMPALA too."""

    target_update_period = 5

    def __init__(self, **fields):
        self.__dict__.update({'target_update_period': 5, **fields})


def cases():
    """Returns the cases by name; their gradients are clipped."""
    dqn = apex_dqn_config.Config(
        importance_sampling_exponent=0.8, max_gradient_norm=0.3, loss='squared'
    )
    vtrace = impala_config.Config(max_gradient_norm=1.0)
    return {
        'apex_dqn': Case(
            apex_dqn.Builder(dqn),
            dqn,
            apex_dqn_loss.double_q_loss,
            apex_dqn_sample,
            'q',
            False,
        ),
        'impala': Case(
            impala.Builder(vtrace),
            vtrace,
            impala_loss.vtrace_loss,
            impala_sample,
            'policy_value',
            True,
        ),
    }


def run(case, seed, samples, group=None, calls=CALLS):
    """Returns gradients and metrics of each call, and the variables at the end."""
    made, variables, optimizer = case.make(seed, samples)
    if group is not None:
        made.join(group)
    metrics, gradients = [], []
    for _ in range(calls):
        metrics.append(made.step())
        gradients.append(optimizer.seen)
    return {
        'gradients': np.array(gradients),
        'variables': np.concatenate([v.numpy().ravel() for v in variables]),
        'state': np.concatenate([np.ravel(v) for v in made.state().values()]),
        'loss': np.array([m['loss'] for m in metrics]),
        'steps': np.array(made.steps),
    }


def _wait(reason, waited_seconds):
    assert reason.startswith('learner ') and reason.endswith(', to take the next step')
    assert waited_seconds < 100


def _until_stopped(rank):
    """Yields samples; those of rank 1 end first."""
    for call in range(3 + 4 * (1 - rank)):
        yield part_of(apex_dqn_sample(call), rank)
    raise core.Stopped


def stop_together(case, rank, group):
    """Returns the steps that this rank did until one of them stopped."""
    joint = joint_samples.JointSamples(_until_stopped(rank), group, UPDATES, _wait)
    made, *_ = case.make(0, joint)
    made.join(group)
    try:
        while True:
            made.step()
    except core.Stopped:
        joint.stop()  # Which may be called again.
        return made.steps


def fail_on_one(case, rank, group):
    """Returns the message, steps and change that a NaN in rank 1's part leads to."""
    sample = part_of(apex_dqn_sample(0), rank)
    if rank == 1:
        reward = sample.data.reward.numpy()
        reward[0, 0] = np.nan
        sample = sample._replace(data=sample.data._replace(reward=tf.constant(reward)))
    made, variables, _ = case.make(
        0, joint_samples.JointSamples(iter([sample]), group, UPDATES, _wait)
    )
    made.join(group)
    before = [v.numpy() for v in variables]
    try:
        made.step()
    except (FloatingPointError, collectives.PeerLostError) as error:
        change = max(np.abs(v.numpy() - b).max() for v, b in zip(variables, before))
        return f'{type(error).__name__} {error}', made.steps, change
    raise AssertionError('the NaN went unnoticed')


def wait_alone(addresses):
    """Prints what a rank raises that waits for others until it is told of a loss."""
    with listening(addresses[1]):
        group = collectives.Group(addresses, 0)
        threading.Timer(1.0, group.abort, ['learner_1 is gone']).start()
        try:
            group.broadcast([tf.Variable(tf.zeros([3]))])
        except collectives.PeerLostError as error:
            print(error)


def listening(address):
    """Returns a socket that stands for the server of another rank, and says nothing."""
    host, _, port = address.partition(':')
    return socket.create_server((host, int(port)))


def wait_in_vain(addresses):
    """Prints what a rank raises for whom nobody comes, and what it waited for."""
    waits = []

    def wait(reason, waited_seconds):
        waits.append(reason)

    try:
        collectives.Group(addresses, 0, wait, start_seconds=1.5)
    except TimeoutError as error:
        print(error)
    print(waits[-1])


def wait_for_one_that_hangs(addresses):
    """Prints what a rank raises where another one is up, and does nothing."""
    waits = []

    def wait(reason, waited_seconds):
        waits.append(reason)

    case = cases()['apex_dqn']
    with listening(addresses[1]):
        group = collectives.Group(addresses, 0, wait, start_seconds=2.5)
        joint = joint_samples.JointSamples(
            iter([case.sample(0)]), group, UPDATES, wait, patience_seconds=2.5
        )
        for call in lambda: case.make(0, joint)[0].join(group), lambda: next(joint):
            try:
                call()
            except TimeoutError as error:
                print(error)
            print(waits[-1])


def main(rank, addresses, path):
    group = collectives.Group(addresses, rank)
    results = {}
    for name, case in cases().items():
        samples = (part_of(case.sample(call), rank) for call in range(CALLS))
        joint = joint_samples.JointSamples(samples, group, UPDATES, _wait)
        # Seeds differ: what ranks begin with is rank 0's.
        found = run(case, rank, joint, group)
        results.update({f'{name}/{key}': value for key, value in found.items()})
    case = cases()['apex_dqn']
    results['stopped/steps'] = stop_together(case, rank, group)
    failed = fail_on_one(case, rank, group)
    for key, value in zip(('message', 'steps', 'change'), failed, strict=True):
        results[f'nan/{key}'] = value
    np.savez(path, **results)


if __name__ == '__main__':
    main(int(sys.argv[1]), sys.argv[2].split(','), sys.argv[3])
