"""The replay server: Reverb tables behind a port, with checkpoints."""

from __future__ import annotations

import dataclasses
import logging
import os
import pathlib
import signal
import threading
from collections.abc import Sequence

import numpy as np
import reverb
import yaml
from dm_env import specs

from repertory.replay import info, limits, ports, tables

_LOGGER = logging.getLogger(__name__)


class ReplayServer:
    """Serves tables until it is stopped; a context manager.

    Reverb listens on every interface and has neither passwords nor encryption: on a
    machine that others reach, `ports.keep_local` or a firewall has to close the port.

    Args:
        table_specs: the tables; names must differ.
        port: None picks a free one.
        checkpoint_dir: where checkpoints are written; None for a temporary folder.
        restore: load the latest finished checkpoint of `checkpoint_dir`, if there is
            one. One that was cut short is never loaded.
        limited: False leaves the ratio of samples to inserts to a SampleBudget.

    Raises:
        OSError: if the port is taken. Reverb would share it with the other server.
        ValueError: if `checkpoint_dir` holds checkpoints and `restore` is False, if
            what is restored has other columns
            or keeps another ratio, or if tables share a name.
    """

    def __init__(
        self,
        table_specs: Sequence[tables.TableSpec],
        port: int | None = None,
        checkpoint_dir: str | os.PathLike | None = None,
        restore: bool = False,
        limited: bool = True,
    ) -> None:
        self.table_specs = tuple(table_specs)
        self.port = _free_port(port)
        checkpointer = None
        saved = checkpoint_dir is not None and any(
            pathlib.Path(checkpoint_dir).glob('*/DONE')
        )
        if restore and not saved:
            _warn_of_empty(checkpoint_dir)
        if checkpoint_dir is not None:
            folder = pathlib.Path(checkpoint_dir)
            if not restore and saved:
                raise ValueError(
                    f'checkpoint_dir must be empty where restore is False, got '
                    f'{folder}; name another folder, or restore.'
                )
            folder.mkdir(parents=True, exist_ok=True)
            checkpointer = reverb.checkpointers.DefaultCheckpointer(str(folder))
        for spec in self.table_specs:
            _LOGGER.info(
                'table `%s`: up to %d items, about %.1f MB when full, less what '
                'compression saves',
                spec.name,
                spec.max_size,
                spec.estimated_bytes / 1e6,
            )
        self._server = reverb.Server(
            [tables.to_reverb(spec, limited) for spec in self.table_specs],
            port=self.port,
            checkpointer=checkpointer,
        )
        if restore:
            try:
                self._check_restored(limited)
            except ValueError:
                self.stop()
                raise

    def _check_restored(self, limited: bool) -> None:
        """Refuses tables of other columns or ratios: Reverb restores those as well."""
        found = info.server_info(self.address)
        for spec in self.table_specs:
            signature = found[spec.name].signature
            if spec.signature is not None and signature is not None:
                columns, saved = map(tables.columns_of, (spec.signature, signature))
                if columns != saved:
                    raise ValueError(
                        f'table `{spec.name}` of the checkpoint must have the columns '
                        f'{columns}, got {saved}; it was written with other lengths or '
                        'specs, or by a version that stored rows in another way. '
                        'Resume with --checkpoint.no-replay, which leaves its replay '
                        'out, and fills it anew.'
                    )
            wanted = dataclasses.astuple(spec.limiter(limited))
            restored = dataclasses.astuple(info.limiter_of(found[spec.name]))
            if not np.allclose(wanted, restored):
                raise ValueError(
                    f'table `{spec.name}` of the checkpoint must have the rate limiter '
                    f'(samples per insert, min size, min and max difference) {wanted}, '
                    f'got {restored}; resume the run as it was launched (in one thread '
                    'or as a program) and with its ratio, or with '
                    '--checkpoint.no-replay, which leaves its replay out.'
                )

    @property
    def address(self) -> str:
        """What clients on this machine connect to."""
        return f'localhost:{self.port}'

    def checkpoint(self) -> str:
        """Writes all tables; returns the folder. Inserts and samples wait meanwhile."""
        self._running()
        return checkpoint(self.address)

    def statistics(self) -> list[info.TableStatistics]:
        """Returns what each table holds and waits for."""
        self._running()
        return info.table_statistics(self.address, timeout=info.BUSY_SECONDS)

    def stop(self) -> None:
        """Ends the server and every blocked call; may be called twice."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def __enter__(self) -> ReplayServer:
        return self

    def __exit__(self, *unused) -> None:
        self.stop()

    def _running(self) -> reverb.Server:
        if self._server is None:
            raise RuntimeError('the replay server has been stopped.')
        return self._server


def _warn_of_empty(checkpoint_dir: str | os.PathLike | None) -> None:
    """Says that there is nothing to restore; that it is lost only where it was."""
    folder = None if checkpoint_dir is None else pathlib.Path(checkpoint_dir)
    if folder is not None and not any(folder.glob('*')):
        _LOGGER.warning(
            'replay begins empty: nothing has been saved in %s yet; learning begins '
            'when min_size items have been inserted.',
            folder,
        )
        return
    _LOGGER.warning(
        'replay begins empty: there is no finished checkpoint in %s; what was in it is '
        'lost, and min_size items have to be inserted anew.',
        folder or 'any folder, since replay is not checkpointed',
    )


def checkpoint(address: str) -> str:
    """Has the server at `address` write all its tables; returns the folder.

    Raises:
        OSError: if it does not answer, or cannot write.
    """
    try:
        return reverb.Client(address).checkpoint()
    except RuntimeError as error:
        raise OSError(f'the replay at {address} was not saved: {error}') from error


def serve(config_path: str | os.PathLike) -> None:
    """Serves the tables of a file until SIGINT or SIGTERM, then saves them.

    The file is YAML, of which JSON is a part: `port`, and if wanted `checkpoint_dir`
    and `restore`, as of `ReplayServer`; and `tables`, a list of `tables.TableSpec`
    fields, where `rate_limit` holds the fields of `limits.RateLimit`, and `signature`
    the `shape` and `dtype` of each column, by name. Without `checkpoint_dir` nothing
    is saved.

    Raises:
        ValueError: if the file does not say which tables, or a field is unknown.
        OSError: if the tables could not be saved.
    """
    path = pathlib.Path(config_path)
    config = yaml.safe_load(path.read_text())
    if not isinstance(config, dict) or not config.get('tables'):
        raise ValueError(f'tables must be listed in {path}, got none.')
    table_specs = [_table_spec(fields) for fields in config.pop('tables')]
    try:
        server = ReplayServer(table_specs, **config)
    except TypeError as error:
        raise ValueError(f'{path} must hold fields of ReplayServer: {error}') from error
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *unused: stopping.set())
    with server:
        names = [spec.name for spec in table_specs]
        print(f'serving {names} on port {server.port}', flush=True)
        stopping.wait()
        if config.get('checkpoint_dir') is None:
            print('stopped; nothing is saved without checkpoint_dir')
        else:
            print(f'stopped; saved to {server.checkpoint()}')


def _table_spec(fields: dict) -> tables.TableSpec:
    limit, signature = fields.get('rate_limit'), fields.get('signature')
    try:
        return tables.TableSpec(
            **{
                **fields,
                'rate_limit': limit and limits.RateLimit(**limit),
                'signature': signature
                and {
                    name: specs.Array(column['shape'], column['dtype'], name)
                    for name, column in signature.items()
                },
            }
        )
    except (TypeError, KeyError) as error:
        raise ValueError(
            f'a table must have the fields of TableSpec, got {sorted(fields)}: {error}'
        ) from error


def _free_port(port: int | None) -> int:
    try:
        with ports.bind(port or 0) as probe:
            return probe.getsockname()[1]
    except OSError as error:
        raise OSError(
            error.errno,
            f'port must be free, got {port}, on which another process listens; '
            'name another, or none.',
        ) from error
