"""`repertory COMMAND ...`: finds the command, and turns errors into one line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

# Name -> module, function, help. Modules are imported once they are asked for.
_COMMANDS = {
    'train': ('train', 'main', 'AGENT: trains an agent; --help lists the agents'),
    'eval': ('commands', 'evaluate', 'RUN_DIR: plays with the policy of a run'),
    'plot': ('commands', 'plot', 'RUN_DIR: draws the learning curve of a run'),
    'replay': ('commands', 'replay', 'serve | info: a replay server of its own'),
    'doctor': ('commands', 'doctor', 'checks that the versions fit each other'),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ('-h', '--help'):
        print('usage: repertory COMMAND ...\n\ncommands:')
        for name, (_, _, text) in _COMMANDS.items():
            print(f'  {name:8} {text}')
        print('\n`repertory COMMAND --help` lists the options of one.')
        return 0 if arguments else 2
    if arguments[0] not in _COMMANDS:
        return fail(
            f'the command must be one of {", ".join(_COMMANDS)}, got {arguments[0]!r}.'
        )
    module, function, _ = _COMMANDS[arguments[0]]
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
    try:
        imported = importlib.import_module(f'repertory.launch.cli.{module}')
        return getattr(imported, function)(arguments[1:])
    except (ValueError, TypeError, OSError) as error:
        if os.environ.get('REPERTORY_TRACEBACK'):
            raise
        return fail(str(error))
    except KeyboardInterrupt:
        return 130


def fail(message: str) -> int:
    """Prints `message` and returns the exit code of a refused command."""
    print(
        f'repertory: {message}\n(REPERTORY_TRACEBACK=1 shows where this arose.)',
        file=sys.stderr,
    )
    return 2
