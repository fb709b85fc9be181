"""`repertory COMMAND ...`: finds the command, and turns errors into one line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata

# Each is a module of this folder with a `main(arguments) -> exit code`, which is
# imported once it is asked for.
COMMANDS = {
    'train': 'AGENT: trains an agent; --resume RUN_DIR continues a run',
    'eval': 'RUN_DIR: plays with the policy of a run; --video films it',
    'plot': 'RUN_DIR ...: draws learning curves; --compare sets runs side by side',
    'sweep': 'AGENT: trains with several settings and seeds, and compares them',
    'agents': 'lists the agents',
    'config': 'AGENT: lists every setting of an agent, with default and meaning',
    'envs': '[FAMILY]: lists the environments',
    'replay': 'serve | info: a replay server of its own',
    'doctor': 'checks Python, versions, memory, allocator, ports and GPU',
    'completion': 'SHELL: prints a completion script for bash, zsh, fish or tcsh',
}
_MODULES = {'eval': 'evaluate'}
_HELP = """
examples:
  repertory train apex-dqn --env catch
  repertory eval runs/apex_dqn_catch-... --video catch.mp4
  repertory plot runs/* --compare -o curves.png

`repertory COMMAND --help` explains one. `repertory --version` says which this is."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ('-h', '--help'):
        print('usage: repertory COMMAND ...\n\ncommands:')
        for name, text in COMMANDS.items():
            print(f'  {name:10} {text}')
        print(_HELP)
        return 0 if arguments else 2
    if arguments[0] == '--version':
        print(f'repertory {metadata.version("repertory")}')
        return 0
    if arguments[0] not in COMMANDS:
        return fail(
            f'the command must be one of {", ".join(COMMANDS)}, got {arguments[0]!r}.'
        )
    # Modules of the user's are found here, as `python -m repertory` finds them.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    name = _MODULES.get(arguments[0], arguments[0])
    try:
        imported = importlib.import_module(f'repertory.launch.cli.{name}')
        return imported.main(arguments[1:])
    except BrokenPipeError:  # As of `repertory config d4pg | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, OSError, ImportError) as error:
        if os.environ.get('REPERTORY_TRACEBACK'):
            raise
        return fail(str(error))
    except KeyboardInterrupt as error:
        print(f'repertory: {str(error) or "interrupted."}', file=sys.stderr)
        return 130


def fail(message: str) -> int:
    """Prints `message` and returns the exit code of a refused command."""
    print(
        f'repertory: {message}\n(REPERTORY_TRACEBACK=1 shows where this arose.)',
        file=sys.stderr,
    )
    return 2
