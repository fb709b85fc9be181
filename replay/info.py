"""What replay tables hold, and what they wait for."""

from __future__ import annotations

import dataclasses
import functools
import socket
import time
from collections.abc import Callable, Sequence

from repertory.replay import limits

# A server that copies a table to save it answers nothing: 15 s for a million items.
BUSY_SECONDS = 120.0
_POLL_SECONDS = 0.05
_STILL_SECONDS = 20.0  # Longer than a learner's first step takes to compile, mostly.


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableStatistics:
    """One table at one moment; counts go on where a checkpoint is restored.

    Attributes:
        name: of the table.
        size: items in it.
        max_size: items.
        inserts: items inserted, those before a restored checkpoint included.
        samples: items sampled, likewise.
        samples_per_insert: asked for; None for no ratio.
        measured_samples_per_insert: samples / (inserts - min_size), of a queue
            samples / inserts; None before.
        min_size: items before the first sample.
        can_insert: whether one insert would go through now.
        can_sample: whether one sample would go through now.
        waits_for: what the table waits for, in words; '' if for nothing.
        bytes_per_item: of the signature, uncompressed; None without a signature.
    """

    name: str
    size: int
    max_size: int
    inserts: int
    samples: int
    samples_per_insert: float | None
    measured_samples_per_insert: float | None
    min_size: int
    can_insert: bool
    can_sample: bool
    waits_for: str
    bytes_per_item: int | None


def table_statistics(address: str, timeout: float = 5.0) -> list[TableStatistics]:
    """Returns the statistics of each table of the server at `address`.

    Args:
        address: 'host:port'.
        timeout: seconds, rounded up.

    Raises:
        ConnectionError: if no server answers in time.
    """
    infos = server_info(address, timeout)
    return [_statistics(infos[name]) for name in sorted(infos)]


def server_info(address: str, timeout: float = BUSY_SECONDS) -> dict:
    """Returns Reverb's own information by table name.

    Raises:
        ConnectionError: if no server answers in time.
        ValueError: if the address is not host:port.
    """
    if not address.rpartition(':')[2].isdigit():
        raise ValueError(f'address must be HOST:PORT, got `{address}`.')
    end = time.monotonic() + timeout
    try:
        # gRPC looks but once a second for a server that starts, then more seldom.
        while not is_listening(address, max(0.1, min(2.0, end - time.monotonic()))):
            if time.monotonic() >= end:
                raise ConnectionError('nobody listens')
            time.sleep(_POLL_SECONDS)
        left = max(1, round(end - time.monotonic()))
        return _client(address).server_info(timeout=left)
    except Exception as error:
        raise ConnectionError(
            f'no replay server answers at {address} within {timeout:.0f} s: {error}; '
            'is it running, and is the address right?'
        ) from error


def is_listening(address: str, timeout: float = 2.0) -> bool:
    """Says whether the port takes connections, as that of a busy server does."""
    host, _, port = address.rpartition(':')
    try:
        socket.create_connection((host.strip('[]'), int(port)), timeout).close()
    except (OSError, UnicodeError):  # The latter of a name that cannot be one.
        return False
    return True


def describe_busy(address: str) -> str:
    """Says in words that a server listens, but does not answer."""
    return (
        f'the replay server at {address}, which is busy: it answers nothing while it '
        'copies its tables for a checkpoint'
    )


class Motion:
    """Tells a wait that is ordinary from one in which nothing moves."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._count: int | None = None
        self._since = 0.0

    def seconds_still(self, count: int) -> float:
        """Returns for how long calls have told of no other count than this one."""
        if count != self._count:
            self._count, self._since = count, self._clock()
        return self._clock() - self._since


def describe_insert_wait(table: TableStatistics, still: float) -> str:
    """Says in words what an insert waits for.

    Args:
        table: as it is.
        still: seconds in which nothing has been sampled from it.
    """
    text = f'insert into table `{table.name}` ({table.size} of {table.max_size} items)'
    if table.waits_for:
        text += f' waits for {table.waits_for}'
    if still >= _STILL_SECONDS:
        return f'{text}; nothing has been sampled for {still:.0f} s: see the learner'
    if not table.samples:
        return f'{text}; ordinary until the learner has compiled its first step'
    return f'{text}; ordinary where actors are faster than the learner'


def describe_sample_wait(table: TableStatistics, still: float) -> str:
    """Says in words what sampling waits for.

    Args:
        table: as it is.
        still: seconds in which nothing has been inserted into it.
    """
    if not table.waits_for:
        return f'table `{table.name}` can be sampled: {table.size} items'
    text = f'table `{table.name}` waits for {table.waits_for}'
    if still >= _STILL_SECONDS:
        return f'{text}; nothing has been inserted for {still:.0f} s: see the actors'
    if table.size < table.min_size:
        return f'{text}; learning begins when they are in'
    return f'{text}; ordinary where the learner is faster than actors'


def rates(
    before: Sequence[TableStatistics],
    after: Sequence[TableStatistics],
    seconds: float,
) -> dict[str, tuple[float, float]]:
    """Returns (inserts, samples) per second by table, from two readings."""
    earlier = {table.name: table for table in before}
    return {
        table.name: (
            (table.inserts - earlier[table.name].inserts) / seconds,
            (table.samples - earlier[table.name].samples) / seconds,
        )
        for table in after
        if table.name in earlier
    }


def render(
    statistics: Sequence[TableStatistics],
    per_second: dict[str, tuple[float, float]] | None = None,
) -> str:
    """Returns the tables as text, one paragraph each."""
    return '\n'.join(
        _render_table(table, (per_second or {}).get(table.name)) for table in statistics
    )


def _render_table(
    table: TableStatistics, per_second: tuple[float, float] | None
) -> str:
    rate = per_second and f' ({per_second[0]:.1f}/s, {per_second[1]:.1f}/s)'
    asked = table.samples_per_insert
    measured = table.measured_samples_per_insert
    asked_text = 'no limit' if asked is None else f'{asked:g}'
    measured_text = 'none yet' if measured is None else f'{measured:.3g}'
    lines = [
        f'{table.name}: {table.size} of {table.max_size} items',
        f'  inserts, samples: {table.inserts}, {table.samples}{rate or ""}',
        f'  samples per insert: {measured_text} (asked {asked_text})',
        f'  waits for: {table.waits_for or "nothing"}',
    ]
    return '\n'.join(lines)


@functools.lru_cache(maxsize=64)
def _client(address: str):
    import reverb

    return reverb.Client(address)


def limiter_of(info) -> limits.Limiter:
    """Returns the inequalities of a table of `server_info`."""
    limit = info.rate_limiter_info
    return limits.Limiter(
        samples_per_insert=limit.samples_per_insert,
        min_size=limit.min_size_to_sample,
        min_diff=limit.min_diff,
        max_diff=limit.max_diff,
    )


def _statistics(info) -> TableStatistics:
    limit, limiter = info.rate_limiter_info, limiter_of(info)
    inserts = limit.insert_stats.completed
    samples = limit.sample_stats.completed
    state = (inserts, samples, inserts - info.current_size)
    is_limited = limiter.max_diff < 1e300
    # Of a queue the first item counts as well.
    beyond = inserts - (0 if info.max_times_sampled == 1 else limiter.min_size)
    can_insert, can_sample = limiter.can_insert(*state), limiter.can_sample(*state)
    statistics = TableStatistics(
        name=info.name,
        size=info.current_size,
        max_size=info.max_size,
        inserts=inserts,
        samples=samples,
        samples_per_insert=limiter.samples_per_insert if is_limited else None,
        measured_samples_per_insert=samples / beyond if beyond > 0 else None,
        min_size=limiter.min_size,
        can_insert=can_insert,
        can_sample=can_sample,
        waits_for='',
        bytes_per_item=_bytes_per_item(info.signature),
    )
    return dataclasses.replace(statistics, waits_for=_waits_for(statistics, limiter))


def _waits_for(table: TableStatistics, limiter: limits.Limiter) -> str:
    error = table.inserts * limiter.samples_per_insert - table.samples
    if table.size < limiter.min_size:
        return f'inserts: it has {table.size} of min_size {limiter.min_size} items'
    counts = f'{table.inserts} inserts, {table.samples} samples'
    if not table.can_sample:
        return (
            f'inserts: {counts} at {limiter.samples_per_insert:g} samples per insert '
            f'leave {error:g}, and a sample needs {limiter.min_diff + 1:g}'
        )
    if not table.can_insert:
        return (
            f'samples: {counts} at {limiter.samples_per_insert:g} samples per insert '
            f'leave {error:g}, and an insert needs at most '
            f'{limiter.max_diff - limiter.samples_per_insert:g}'
        )
    return ''


def _bytes_per_item(signature) -> int | None:
    if signature is None:
        return None
    import tree

    return sum(
        spec.shape.num_elements() * spec.dtype.size for spec in tree.flatten(signature)
    )


def is_fifo(address: str, table: str) -> bool:
    """Says whether a table hands out its oldest items first."""
    return server_info(address)[table].sampler_options.fifo


def print_info(address: str, seconds: float = 1.0) -> None:
    """Prints each table at `address`, with rates over `seconds` seconds.

    Raises:
        ConnectionError: if no server answers.
    """
    before, start = table_statistics(address), time.monotonic()
    time.sleep(seconds)
    after = table_statistics(address)
    print(render(after, rates(before, after, time.monotonic() - start)))
