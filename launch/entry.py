"""What a child process runs: one pickled function, as a Launchpad node runs it."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import json
import logging
import os
import pathlib
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from repertory.launch import supervisor
from repertory.replay import ports

_PR_SET_PDEATHSIG = 1

# Ports of the node that only its own machine is to reach.
PORTS_VARIABLE = 'REPERTORY_LOCAL_PORTS'

# Variables for the process of any node.
VARIABLES = {
    'PYTHONUNBUFFERED': '1',
    'PYTHONFAULTHANDLER': '1',  # Says where a segmentation fault was.
    'TF_CPP_MIN_LOG_LEVEL': os.environ.get('TF_CPP_MIN_LOG_LEVEL', '2'),
}


def keep_local(numbers: Iterable[int]) -> dict[str, str]:
    """Returns the variables that have `main` close ports to other machines."""
    return {PORTS_VARIABLE: ','.join(map(str, numbers))}


def make_job(function: Callable[[], Any], name: str) -> bytes:
    """Returns what `main` reads from a file.

    Raises:
        TypeError: if the function holds what cannot be copied to another process.
    """
    import cloudpickle
    from launchpad.launch import serialization

    serialization.enable_lru_cache_pickling_once()
    try:
        pickled = cloudpickle.dumps(function)
    except Exception as error:
        raise TypeError(
            f'{name} must be made of what can be pickled, got {error!r}; make '
            'environments, networks and files in a function, not before the launch.'
        ) from error
    # The path comes first: the function's modules are found by it.
    return pickle.dumps((sys.path, name, pickled))


def send_event(**event: Any) -> None:
    """Sends news to the launcher, if there is one."""
    descriptor = os.environ.get(supervisor.EVENTS_VARIABLE)
    if descriptor is not None:
        os.write(int(descriptor), json.dumps(event).encode() + b'\n')


def attempt() -> int:
    """Returns how often this node was started before."""
    return int(os.environ.get(supervisor.ATTEMPT_VARIABLE, '0'))


class Stopper:
    """Stops the program that this process is a node of: what `lp.stop` calls."""

    def __call__(self, mark_as_completed: bool = False) -> None:
        del mark_as_completed
        send_event(stop='a node asked for it')


def control_process(option: int, argument: Any) -> None:
    """Calls `prctl`.

    Raises:
        OSError: if the kernel refuses.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(option, argument):
        number = ctypes.get_errno()
        raise OSError(number, f'prctl({option}): {os.strerror(number)}')


def die_with_parent() -> None:
    """Has the kernel kill this process with the thread that started it.

    With the main thread of the launcher if it was forked.
    """
    parent = os.environ.get(supervisor.PARENT_VARIABLE)
    if parent is None:
        return
    control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # It died before the kernel was told.
        os._exit(1)


def configure_logging() -> None:
    """Has a process log to stderr."""
    logging.basicConfig(
        level=logging.INFO, format='%(asctime)s %(levelname)s %(name)s: %(message)s'
    )


def import_for_good(*modules: str) -> None:
    """Imports modules whose objects stay.

    The collector would look through them again and again: for a tenth of TensorFlow's
    import, and then 0.1 s a time. Of forks each would copy what all can share.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for module in modules:
            importlib.import_module(module)
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


def main(job_path: str) -> None:
    """Runs the job, and ends the process with 0 or, after an exception, with 1."""
    die_with_parent()
    faulthandler.register(supervisor.TRACEBACK_SIGNAL, all_threads=True)
    configure_logging()
    local = os.environ.get(PORTS_VARIABLE, '').split(',')
    ports.keep_local_soon([int(port) for port in local if port])
    path, name, pickled = pickle.loads(pathlib.Path(job_path).read_bytes())
    sys.path.extend(entry for entry in path if entry not in sys.path)
    try:
        from absl import flags
        from launchpad.launch import worker_manager

        # A negative notice: Launchpad sets its stop event and kills nobody; the
        # launcher does.
        arguments = [name, '--lp_termination_notice_secs=-1']
        flags.FLAGS(arguments, known_only=True)
        manager = worker_manager.WorkerManager(register_in_thread=True)
        pickle.loads(pickled)()
        del manager
        code = 0
    except BaseException:
        text = traceback.format_exc()
        print(text, file=sys.stderr, flush=True)
        send_event(error=text.strip())
        code = 1
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: threads of a failed node must not keep the process, and destructors of
    # datasets wait for a replay server that may be gone.
    os._exit(code)


if __name__ == '__main__':
    main(sys.argv[1])
