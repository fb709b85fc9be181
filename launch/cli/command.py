"""What `repertory ...` in a shell starts: `main.py`, in a process made for it.

A run in threads, or in one, learns in the command's own process, which cannot change
its allocator any more: it begins anew, once, before anything slow is imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import sys
from collections.abc import Sequence

from repertory.launch.cli import main as main_lib

# Says to the new process that it is one: the loader may have dropped its variable.
_ANEW = 'REPERTORY_BEGUN_ANEW'


def main() -> int:
    """Runs the command of this process; returns its exit code.

    Other programs call `main.main`, which leaves their process as it is.
    """
    first = os.environ.pop(_ANEW, None) is None
    if first and _is_the_program() and _learns_here(sys.argv[1:]):
        try:
            _begin_anew()
        except KeyboardInterrupt:
            print('repertory: interrupted.', file=sys.stderr)
            return 130
    return main_lib.main()


def _is_the_program() -> bool:
    """Returns whether this process was started for the command, by nothing else.

    A debugger, or what runs a module within itself, would lose its hold on it.
    """
    # Words of the interpreter, then the script, or -m and the module, and arguments.
    split = len(sys.orig_argv) - len(sys.argv)
    if split < 1 or sys.orig_argv[split + 1 :] != sys.argv[1:]:
        return False
    options, started = sys.orig_argv[1:split], sys.orig_argv[split]
    if options[-1:] == ['-m']:
        options.pop()
        if started != 'repertory':
            return False
    elif started != sys.argv[0] or pathlib.Path(started).name != 'repertory':
        return False
    return all(
        word.startswith('-') or before in ('-X', '-W')
        for before, word in zip(['', *options], options)
    )


def _learns_here(arguments: Sequence[str]) -> bool:
    """Returns whether this command is to train in its own process.

    The flags are parsed in earnest later: that takes longer than to begin anew.
    """
    if arguments[:1] != ['train']:
        return False
    launch = _value('--launch', arguments)
    if launch is not None:
        return launch in ('threads', 'sync')
    run_dir = _value('--resume', arguments)
    return run_dir is not None and _was_in_one_thread(run_dir)


def _value(flag: str, arguments: Sequence[str]) -> str | None:
    for index, word in enumerate(arguments):
        if word == flag:
            return next(iter(arguments[index + 1 :]), None)
        if word.startswith(f'{flag}='):
            return word.partition('=')[2]
    return None


def _was_in_one_thread(run_dir: str) -> bool:
    # A folder that holds no run is refused in words later.
    with contextlib.suppress(
        OSError, ValueError, LookupError, TypeError, AttributeError
    ):
        description = json.loads(pathlib.Path(run_dir, 'run.json').read_text())
        return bool(description['starts'][-1].get('one_thread'))
    return False


def _begin_anew() -> None:
    """Replaces this process, with the allocator; returns where there is none."""
    from repertory.components import allocator

    chosen = allocator.variables()
    if not chosen:
        return
    command = [sys.executable, *sys.orig_argv[1:]]
    with contextlib.suppress(OSError):  # Slower is better than not at all.
        os.execve(sys.executable, command, {**os.environ, **chosen, _ANEW: '1'})
