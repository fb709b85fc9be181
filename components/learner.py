"""Learns by gradient steps from sampled batches, several a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from repertory.components import (
    checkpointing,
    collectives,
    compiled,
    core,
    optimizers,
    types,
)


class LossOutput(NamedTuple):
    """What a loss function returns."""

    loss: tf.Tensor | Mapping[str, tf.Tensor]  # [], to be descended; or each by name.
    priorities: tf.Tensor  # [B], to be written back; [0] where there are none.
    metrics: Mapping[str, tf.Tensor]  # [], by name.
    # int64 of any shape: learner steps of the parameters that acted; for `policy_lag`.
    versions: tf.Tensor | None = None


# (online networks, target networks, sample, the agent's config)
Loss = Callable[[Any, Any, types.Sample, Any], LossOutput]


class SGDLearner(core.Learner):
    """One loss, one optimiser, target copies, priorities, counts and metrics.

    One call of `step` takes K batches, [K, B, ...], and does K learner steps in one
    compiled call. A loss or gradient that is not finite stops learning before it
    touches the parameters.

    Where parts are trained by losses of their own, as actor and critic, `trained` and
    `optimizer` are dicts by the losses' names, and so is the `loss` of the output: no
    loss moves another's modules, and each one's gradients are clipped by themselves.

    Args:
        loss: the agent's loss function.
        online: networks to be trained.
        target: networks that `online` is copied to, at the start too.
        trained: modules of `online` whose trainable variables the loss trains; or
            those of each loss, by name.
        acting: modules of `online` whose variables actors need, in their order.
        targets: pairs (from, to) of modules for the target copies.
        config: handed to the loss; `target_update_period` (learner steps) and
            `max_gradient_norm` (None for no clipping) are read here.
        optimizer: of `components.optimizers`; or one for each loss, by name.
        samples: yields samples [K, B, ...]; `prepare` traces by its `element_spec`.
        update_priorities: takes uint64 keys [K * B] and priorities [K * B].
        summed: whether the loss is a sum over the items of a batch, not their mean; so
            are the losses of several learners that learn as one joined.
    """

    def __init__(
        self,
        *,
        loss: Loss,
        online: Any,
        target: Any,
        trained: Sequence[snt.Module] | Mapping[str, Sequence[snt.Module]],
        acting: Sequence[snt.Module],
        targets: Sequence[tuple[snt.Module, snt.Module]],
        config: Any,
        optimizer: optimizers.Optimizer | Mapping[str, optimizers.Optimizer],
        samples: Iterator[types.Sample],
        update_priorities: core.PriorityUpdater | None = None,
        summed: bool = False,
    ):
        self._loss = loss
        self._online = online
        self._target = target
        self._config = config
        self._samples = samples
        self._update_priorities = update_priorities
        self._summed = summed
        self._group: collectives.Group | None = None
        parts = _by_name(trained)
        self._variables = _variables([m for part in parts.values() for m in part])
        self._trained = {
            name: [v for v in _variables(part) if v.trainable]
            for name, part in parts.items()
        }
        self._optimizers: dict[str, optimizers.Optimizer] = _by_name(optimizer)
        self._acting = _variables(acting)
        self._sources = _variables([source for source, _ in targets])
        self._targets = _variables([copy for _, copy in targets])
        self._steps = tf.Variable(0, dtype=tf.int64, trainable=False, name='steps')
        self._num_steps = 0
        self._metric_names: list[str] = []
        for name, variables in self._trained.items():
            self._optimizers[name].initialize(variables)
        self._copy_targets()
        self._step: compiled.Compiled | None = None  # For samples of one spec.
        self._seconds = {'wait': 0.0, 'learn': 0.0}

    @property
    def steps(self) -> int:
        return self._num_steps

    def step(self) -> dict[str, float]:
        """Takes one [K, B, ...] sample and does K learner steps.

        Returns:
            The metrics, averaged over the K steps.

        Raises:
            FloatingPointError: if a loss, a gradient or a priority is not finite; of
                several learners all raise it, but one alone that of its priorities.
            collectives.PeerLostError: if another learner is gone.
        """
        began = time.perf_counter()
        sample = next(self._samples)
        received = time.perf_counter()
        if self._step is None:
            spec = tree.map_structure(tf.TensorSpec.from_tensor, sample)
            self._step = self._trace(spec)
        try:
            priorities, metrics = self._step(sample)
        except tf.errors.InvalidArgumentError as error:
            lines = error.message.splitlines()
            found = [line.strip() for line in lines if 'Tensor had' in line]
            if not found:
                raise
            raise FloatingPointError(
                'loss and gradient must be finite, got NaN or Inf in learner step '
                f'{int(self._steps.numpy()) + 1}, which changed nothing; priorities '
                f'are as of step {self._num_steps}. {found[0]}'
            ) from None
        except collectives.LOST as error:
            if self._group is None:
                raise
            self._num_steps = int(self._steps.numpy())  # Of a call, some may be done.
            raise self._group.lost(error) from error
        values = metrics.numpy()
        keys = sample.info.key
        self._num_steps += int(keys.shape[0])
        if self._update_priorities is not None:
            self._update_priorities(keys.numpy().ravel(), priorities.numpy().ravel())
        self._seconds['wait'] += received - began
        self._seconds['learn'] += time.perf_counter() - received
        return dict(zip(self._metric_names, values.tolist(), strict=True))

    def prepare(self) -> None:
        spec = getattr(self._samples, 'element_spec', None)
        # With others it would make collectives in another order than they do.
        if spec is None or self._step is not None or self._group is not None:
            return
        if all(leaf.shape.is_fully_defined() for leaf in tree.flatten(spec)):
            self._step = self._trace(spec)

    def join(self, group: collectives.Group) -> None:
        """Learns as one with the other learners of `group` from now on.

        To be called first, before `prepare` too, by all of them, each with its part of
        a batch as samples. All begin with the variables of rank 0. In each step the
        losses and gradients are those of the joined batch: the mean over the learners,
        or the sum where losses are `summed`. Clipping, checks and the optimizer follow
        on each rank alike, so that the variables stay the same: a learning rate is for
        the whole batch. Metrics but loss and gradient norm, and priorities, are of a
        learner's own part.

        Raises:
            RuntimeError: if it has begun to learn, is prepared, or has joined a group.
            PeerLostError, TimeoutError: as `group.broadcast` does.
        """
        if self._step is not None or self._group is not None:
            raise RuntimeError(
                'join must be called once, before prepare and the first step, got a '
                f'later call, at step {self._num_steps}; make a new learner.'
            )
        self._group = group
        group.broadcast(list(self._named().values()))
        self._num_steps = int(self._steps.numpy())

    def statistics(self) -> dict[str, float]:
        """Returns the seconds spent waiting for samples, and learning."""
        return dict(self._seconds)

    def get_variables(self) -> tuple[int, list[np.ndarray]]:
        """Returns the parameters for actors; to be called from the learner's thread."""
        # Copies: on a CPU, numpy() shares memory with a variable that will change.
        return self._num_steps, [np.array(v.numpy()) for v in self._acting]

    def flush(self) -> None:
        if self._update_priorities is not None:
            self._update_priorities.flush()

    def close(self) -> None:
        if self._update_priorities is not None:
            self._update_priorities.close()

    def state(self) -> dict[str, np.ndarray]:
        return {name: np.array(v.numpy()) for name, v in self._named().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        named = self._named()
        checkpointing.check_fit(state, named)
        for name, variable in named.items():
            variable.assign(state[name])
        self._num_steps = int(self._steps.numpy())

    def _named(self) -> dict[str, tf.Variable]:
        """Returns all variables; an index makes equal names differ."""
        groups = {
            'online': self._variables,
            'target': self._targets,
            'optimizer': [v for o in self._optimizers.values() for v in o.variables],
        }
        named = {
            f'{group}/{i}/{v.name}': v
            for group, variables in groups.items()
            for i, v in enumerate(variables)
        }
        return {'steps': self._steps, **named}

    def _trace(self, sample_spec: types.Sample) -> compiled.Compiled:
        used = self._variables + self._acting + self._targets
        # Collectives have not been tried in a branch.
        small = compiled.is_small_learner(used) and self._group is None
        return compiled.Compiled(self._steps_of_call, [sample_spec], small)

    def _steps_of_call(self, samples: types.Sample) -> tuple[tf.Tensor, tf.Tensor]:
        num_steps = samples.info.key.shape[0]  # In one call: each costs 0.3 ms.
        if num_steps == 1:
            return self._one_step(tree.map_structure(lambda x: x[0], samples))
        arrays = [tf.TensorArray(tf.float32, num_steps) for _ in range(2)]

        def body(k, priorities, metrics):
            new = self._one_step(tree.map_structure(lambda x: x[k], samples))
            return k + 1, priorities.write(k, new[0]), metrics.write(k, new[1])

        _, priorities, metrics = tf.while_loop(
            lambda k, *_: k < num_steps, body, (0, *arrays), parallel_iterations=1
        )
        return priorities.stack(), tf.reduce_mean(metrics.stack(), axis=0)

    def _one_step(self, sample: types.Sample) -> tuple[tf.Tensor, tf.Tensor]:
        # Persistent costs nothing: the tape is gone once the graph is made.
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(self._trained)
            output = self._loss(self._online, self._target, sample, self._config)
        losses = _by_name(output.loss)
        gradients = {
            name: tape.gradient(losses[name], variables, unconnected_gradients='zero')
            for name, variables in self._trained.items()
        }
        if self._group is not None:
            # One that is not finite makes the whole so: all stop at this step.
            losses, gradients = self._group.combine((losses, gradients), self._summed)
        metrics = {}
        for name in self._trained:
            gradients[name], norm = optimizers.clip_by_global_norm(
                gradients[name], self._config.max_gradient_norm
            )
            for key, value in ('loss', losses[name]), ('gradient_norm', norm):
                key = f'{name}_{key}'.lstrip('_')
                metrics[key] = tf.debugging.check_numerics(value, key)
        if output.versions is not None:
            lag = self._steps - output.versions
            metrics['policy_lag'] = tf.reduce_mean(tf.cast(lag, tf.float32))
            metrics['policy_lag_max'] = tf.reduce_max(lag)
        # All are asserted before anything is applied.
        with tf.control_dependencies(list(metrics.values())):
            for name, variables in self._trained.items():
                self._optimizers[name].apply(gradients[name], variables)
            self._steps.assign_add(1)
        if self._targets:
            period = self._config.target_update_period
            tf.cond(self._steps % period == 0, self._copy_targets, tf.no_op)
        metrics.update(output.metrics)
        self._metric_names = list(metrics)
        return tf.cast(output.priorities, tf.float32), tf.stack(
            [tf.cast(value, tf.float32) for value in metrics.values()]
        )

    def _copy_targets(self) -> tf.Operation | None:
        pairs = zip(self._sources, self._targets, strict=True)
        copies = [copy.assign(source, read_value=False) for source, copy in pairs]
        return None if tf.executing_eagerly() else tf.group(*copies)


def _by_name(value: Any) -> dict[str, Any]:
    """Returns what there is for each loss; a single one has no name."""
    return dict(value) if isinstance(value, Mapping) else {'': value}


def _variables(modules: Sequence[snt.Module]) -> list[tf.Variable]:
    return [variable for module in modules for variable in module.variables]
