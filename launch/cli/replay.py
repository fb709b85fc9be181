"""`repertory replay serve FILE` and `repertory replay info ADDRESS`."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import tyro

from repertory.launch.cli import calling

_USAGE = """usage: repertory replay serve --config FILE
       repertory replay info ADDRESS

A replay server of its own, for programs that are not launched together, and a look
into any running one.

examples:
  repertory replay serve --config replay.yaml
  repertory replay info localhost:8000"""


def serve(config: Annotated[pathlib.Path, tyro.conf.arg(metavar='FILE')]) -> int:
    """Serves the tables of a YAML file until Ctrl-C or SIGTERM, then saves them.

    Args:
        config: which tables, on which port, saved where; docs/replay.md has a sample.
    """
    from repertory.replay import server

    server.serve(config)
    return 0


def info(address: tyro.conf.Positional[str]) -> int:
    """Prints what the tables of a replay server hold and wait for.

    Args:
        address: such as `localhost:8000`; a run's is in its logs/replay_0.log.
    """
    from repertory.replay import info

    info.print_info(address)
    return 0


def main(arguments: Sequence[str]) -> int:
    choices: dict[str, Callable[..., int]] = {'serve': serve, 'info': info}
    if arguments and arguments[0] in ('-h', '--help'):
        print(_USAGE)
        return 0
    if not arguments or arguments[0] not in choices:
        print(_USAGE, file=sys.stderr)
        return 2
    name, *rest = arguments
    example = next(line for line in _USAGE.splitlines()[::-1] if f' {name} ' in line)
    return calling.call(
        choices[name], f'repertory replay {name}', rest, [example.strip()]
    )
