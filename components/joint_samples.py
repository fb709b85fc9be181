"""Samples that several learners take together."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from repertory.components import collectives, core, types

# Learners sample from the same replay: none waits for data for so much longer.
_PATIENCE_SECONDS = 3600.0


class JointSamples(Iterator[types.Sample]):
    """The samples of one rank, of which all ranks take one each, or none does.

    So all do the same number of learner steps: where one stops, all raise
    `core.Stopped`. Of each batch `info.least_probability` is that of all ranks.
    """

    def __init__(
        self,
        samples: Iterator[types.Sample],
        group: collectives.Group,
        updates_per_call: int,
        wait: core.Wait,
        patience_seconds: float = _PATIENCE_SECONDS,
    ):
        """Takes no sample yet.

        Args:
            samples: of this rank, [updates_per_call, B, ...]; they may raise
                `core.Stopped`.
            group: of all ranks.
            updates_per_call: the same on all ranks.
            wait: as of `Group.call`.
            patience_seconds: in which all must have a sample once this rank has.
        """
        self._samples = samples
        self._group = group
        self._wait = wait
        self._patience_seconds = patience_seconds
        self._nothing = tf.ones([updates_per_call], tf.float64)
        self._agree = tf.function(self._exchange, autograph=False)
        self._over = False

    def __next__(self) -> types.Sample:
        """Returns the next sample, once all ranks have theirs.

        Raises:
            core.Stopped: if one of them stops.
            PeerLostError: if one of them is gone.
            TimeoutError: if one of them has no sample for long.
        """
        try:
            sample = next(self._samples)
        except core.Stopped:
            self.stop()
            raise
        least = tf.reduce_min(sample.info.probability, axis=1)
        stopped, least = self._ask(False, least)
        if stopped:
            self._over = True
            raise core.Stopped('another learner stopped')
        return sample._replace(info=sample.info._replace(least_probability=least))

    def stop(self) -> None:
        """Has all ranks stop, unless they have; waits until each knows.

        Raises:
            PeerLostError: if one of them is gone.
        """
        if not self._over:
            self._over = True
            self._ask(True, self._nothing)

    def _ask(self, stops: bool, least: tf.Tensor) -> tuple[bool, tf.Tensor]:
        stopped, least = self._group.call(
            lambda: self._agree(tf.constant(float(stops), tf.float64), least),
            self._wait,
            'take the next step',
            self._patience_seconds,
        )
        return bool(stopped), least

    def _exchange(
        self, stops: tf.Tensor, least: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.device('CPU:0'):
            stops, least = self._group.all_reduce([stops, -least], merge='Max')
        return stops > 0, -least
