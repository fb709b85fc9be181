"""From replay servers to a tf.data.Dataset of `types.Sample`, batched in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import reverb
import tensorflow as tf
import tree

from repertory.components import types
from repertory.components.losses import multistep
from repertory.replay import info, rows, tables


def make_transition_dataset(
    addresses: Sequence[str],
    table: str,
    codec: rows.RowCodec,
    n_step: int,
    discount: float,
    batch_size: int,
    updates_per_call: int = 1,
    prefetch: bool = True,
) -> tf.data.Dataset:
    """Returns a dataset of samples [updates_per_call, B, ...] of `types.Transition`.

    With several servers each gives its share of a batch, in turn; the probabilities
    are those within the item's own table.

    Args:
        addresses: of the replay servers; one in this process is read directly.
        table: name.
        codec: that the adder packed the rows with.
        n_step: of the adder.
        discount: gamma, in [0, 1].
        batch_size: B, items.
        updates_per_call: batches of an element of the dataset.
        prefetch: False samples as little ahead as can be, for one thread.

    Raises:
        ConnectionError: if a server does not answer.
        ValueError: if the table is missing, lacks a signature or has another one.
    """

    def decode(packed: dict[str, tf.Tensor]) -> types.Transition:
        return to_transition(packed['rows'], codec, discount)

    return _make_dataset(
        addresses,
        table,
        tables.signature(codec, n_step + 1),
        decode,
        batch_size,
        updates_per_call,
        prefetch,
    )


def make_trajectory_dataset(
    addresses: Sequence[str],
    table: str,
    codec: rows.RowCodec,
    length: int,
    batch_size: int,
    updates_per_call: int = 1,
    prefetch: bool = True,
    state_codec: rows.NestCodec | None = None,
    num_lanes: int | None = None,
) -> tf.data.Dataset:
    """Returns a dataset of samples [updates_per_call, B, ...] of `types.Trajectory`.

    Args:
        addresses: of the replay servers; one in this process is read directly.
        table: name.
        codec: that the adder packed the rows with.
        length: rows of a sequence or unroll, T + 1 for T steps.
        batch_size: items. Where an item is an unroll of `num_lanes` lanes, the data
            have B = batch_size * num_lanes, lane after lane, and `info` batch_size.
        updates_per_call: batches of an element of the dataset.
        prefetch: False samples as little ahead as can be, for one thread.
        state_codec: that the adder packed the states with; None for none.
        num_lanes: of each actor, for unrolls; None for sequences of one lane.

    Raises:
        ConnectionError: if a server does not answer.
        ValueError: if the table is missing, lacks a signature or has another one.
    """

    def decode(packed: dict[str, tf.Tensor]) -> types.Trajectory:
        return to_trajectory(packed, codec, state_codec, num_lanes)

    return _make_dataset(
        addresses,
        table,
        tables.signature(codec, length, state_codec, num_lanes),
        decode,
        batch_size,
        updates_per_call,
        prefetch,
    )


def to_transition(
    packed: tf.Tensor, codec: rows.RowCodec, discount: float
) -> types.Transition:
    """Returns the n-step transitions [B] of windows of packed rows.

    R = sum_{k<m} (prod_{j<k} gamma d_{t+j}) r_{t+k}, D = prod_{j<m} gamma d_{t+j},
    with m the rows of the window after the first that are not PADDING.

    Args:
        packed: uint8 [B, codec.num_context + n + 1, num_bytes].
        codec: of the rows.
        discount: gamma.
    """
    rows_of = codec.decode_items(packed, observed=(0, -1))
    is_padding = tf.equal(rows_of.step_type[:, 1:], types.StepType.PADDING)
    reward, bootstrap_discount = multistep.n_step_return(
        rows_of.reward[:, 1:], rows_of.discount[:, 1:], ~is_padding, discount
    )

    def at(nest: types.Nest, t: int) -> types.Nest:
        return tree.map_structure(lambda leaf: leaf[:, t], nest)

    return types.Transition(
        observation=at(rows_of.observation, 0),
        action=at(rows_of.action, 0),
        reward=reward,
        discount=bootstrap_discount,
        next_observation=at(rows_of.observation, 1),
        extras=at(rows_of.extras, 0),
    )


def to_trajectory(
    packed: dict[str, tf.Tensor],
    codec: rows.RowCodec,
    state_codec: rows.NestCodec | None = None,
    num_lanes: int | None = None,
) -> types.Trajectory:
    """Returns the trajectories [B, T, ...] of packed items.

    Args:
        packed: uint8 `rows` [B, codec.num_context + T, num_bytes] and, with a
            `state_codec`, `state` [B, num_bytes]; with `num_lanes` [items,
            codec.num_context + T, lanes, num_bytes] and [items, lanes, num_bytes], of
            which B = items * lanes are made.
        codec: of the rows.
        state_codec: of the states; None for none.
        num_lanes: of an unroll; None for a sequence of one lane.
    """
    packed_rows, packed_state = packed['rows'], packed.get('state')
    if num_lanes is not None:
        packed_rows = tf.transpose(packed_rows, [0, 2, 1, 3])
        packed_rows = tf.reshape(
            packed_rows, [-1, packed_rows.shape[2], codec.num_bytes]
        )
    found = codec.decode_items(packed_rows)
    if state_codec is None:
        return types.Trajectory(found, ())
    packed_state = tf.reshape(packed_state, [-1, state_codec.num_bytes])
    return types.Trajectory(found, state_codec.decode(packed_state))


def _make_dataset(
    addresses: Sequence[str],
    table: str,
    signature: tables.Signature,
    decode: Callable[[dict[str, tf.Tensor]], types.Nest],
    batch_size: int,
    updates_per_call: int,
    prefetch: bool,
) -> tf.data.Dataset:
    for address in addresses:
        check_signature(address, table, signature)
    num_items = batch_size * updates_per_call
    is_queue = info.is_fifo(addresses[0], table)
    # Two or three workers take what a small learner needs. From a queue one takes its
    # items in order, and as few ahead as can be: they grow old.
    is_ahead = prefetch and not is_queue
    arguments = dict(
        table=table,
        dtypes={name: tf.as_dtype(spec.dtype) for name, spec in signature.items()},
        shapes={name: tf.TensorShape(spec.shape) for name, spec in signature.items()},
        num_workers_per_iterator=2 if is_ahead else 1,
        max_in_flight_samples_per_worker=max(1, num_items) if is_ahead else 1,
    )

    def sample(address):
        return reverb.TrajectoryDataset(address, **arguments)

    if len(addresses) == 1:
        dataset = sample(addresses[0])
    else:
        dataset = tf.data.Dataset.from_tensor_slices(list(addresses)).interleave(
            sample, cycle_length=len(addresses), block_length=1
        )

    def to_sample(sampled: reverb.ReplaySample) -> types.Sample:
        info_fields = types.SampleInfo(
            key=sampled.info.key,
            probability=sampled.info.probability,
            table_size=sampled.info.table_size,
            priority=sampled.info.priority,
        )
        flat = types.Sample(info_fields, decode(sampled.data))
        return tf.nest.map_structure(
            lambda leaf: tf.reshape(
                leaf,
                [updates_per_call, leaf.shape[0] // updates_per_call, *leaf.shape[1:]],
            ),
            flat,
        )

    dataset = dataset.batch(num_items, drop_remainder=True)
    # Converted by autograph it would take seconds to start.
    dataset = dataset.map(tf.autograph.experimental.do_not_convert(to_sample))
    if is_ahead:
        return dataset.prefetch(1)
    options = tf.data.Options()
    options.autotune.enabled = False  # It would take two batches more ahead.
    return dataset.with_options(options)


def check_signature(
    address: str,
    table: str,
    signature: tables.Signature,
    timeout: float = info.BUSY_SECONDS,
) -> None:
    """Refuses a table whose items are not those of `signature`.

    Raises:
        ConnectionError: if the server does not answer within `timeout` seconds.
        ValueError: if there is no such table, or it has no or another signature.
    """
    found = info.server_info(address, timeout)
    if table not in found:
        raise ValueError(
            f'table must be one of {sorted(found)} at {address}, got `{table}`.'
        )
    actual = found[table].signature
    if actual is None:
        raise ValueError(
            f'table `{table}` at {address} must have a signature, got none; set '
            'TableSpec.signature.'
        )
    wanted, given = tables.columns_of(signature), tables.columns_of(actual)
    if wanted != given:
        raise ValueError(
            f'table `{table}` at {address} must have the columns {wanted}, got '
            f'{given}; table, adder and dataset need the same specs and lengths.'
        )


def describe_wait(addresses: Sequence[str]) -> Callable[[], str]:
    """Returns a function that says what sampling from these servers waits for."""
    inserts = {address: info.Motion() for address in addresses}

    def describe() -> str:
        waiting = []
        for address in addresses:
            try:
                found = info.table_statistics(address, timeout=2.0)
            except ConnectionError as error:
                waiting.append(str(error))
                continue
            still = inserts[address].seconds_still(sum(t.inserts for t in found))
            waiting += [info.describe_sample_wait(table, still) for table in found]
        return ' | '.join(waiting)

    return describe
