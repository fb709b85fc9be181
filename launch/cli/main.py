"""`repertory COMMAND ...`: finds the command, and turns errors into one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from repertory.launch.cli import commands, train

_COMMANDS = {
    'train': (train.main, 'AGENT: trains an agent; --help lists the agents'),
    'eval': (commands.evaluate, 'RUN_DIR: plays episodes with the policy of a run'),
    'plot': (commands.plot, 'RUN_DIR: draws the learning curve of a run'),
    'replay': (commands.replay, 'serve | info: a replay server of its own'),
    'doctor': (commands.doctor, 'checks that the installed versions fit each other'),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ('-h', '--help'):
        print('usage: repertory COMMAND ...\n\ncommands:')
        for name, (_, text) in _COMMANDS.items():
            print(f'  {name:8} {text}')
        print('\n`repertory COMMAND --help` lists the options of one.')
        return 0 if arguments else 2
    if arguments[0] not in _COMMANDS:
        return fail(
            f'the command must be one of {", ".join(_COMMANDS)}, got {arguments[0]!r}.'
        )
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
    try:
        return _COMMANDS[arguments[0]][0](arguments[1:])
    except (ValueError, TypeError, OSError) as error:
        if os.environ.get('REPERTORY_TRACEBACK'):
            raise
        return fail(str(error))


def fail(message: str) -> int:
    """Prints `message` and returns the exit code of a refused command."""
    print(f'repertory: {message}', file=sys.stderr)
    return 2
