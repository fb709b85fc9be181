"""What a process of `processes.ProcessVectorEnvironment` runs.

Run as: python -m repertory.components.environments.worker PIPE MEMORY PARENT, with
two inherited file descriptors and a process id.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import traceback
from multiprocessing import connection

import tree

from repertory.components.environments import processes, vector

_PR_SET_PDEATHSIG = 1


def main() -> None:
    pipe_descriptor, memory, parent = map(int, sys.argv[1:])
    # The parent ends workers, also after Ctrl-C, which reaches the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return  # it died before it could be told of.
    pipe = connection.Connection(pipe_descriptor)
    try:
        _serve(pipe, memory)
    except (EOFError, ConnectionError):
        pass  # the parent has closed the pipe: the end.
    except Exception as error:
        kind: type[Exception] = RuntimeError
        if isinstance(error, FloatingPointError):
            kind = FloatingPointError
        trace = traceback.format_exc()
        try:
            pipe.send((kind, trace))
        except OSError:  # Nobody listens, where an environment could not be closed.
            sys.stderr.write(trace)
        sys.exit(1)


def _serve(pipe: connection.Connection, memory: int) -> None:
    factories, first_lane = pickle.loads(pipe.recv_bytes())
    environment = vector.SerialVectorEnvironment(
        [make() for make in factories], first_lane
    )
    try:
        pipe.send((None, environment.spec))
        spec, num_lanes = pipe.recv()
        views = processes.Layout(spec, num_lanes).map(memory)
        lanes = slice(first_lane, first_lane + environment.num_lanes)
        pipe.send((None, None))
        ready = pickle.dumps((None, None))
        while True:
            if pipe.recv_bytes() == b's':
                actions = [view[lanes].copy() for view in views.action]
                step = environment.step(tree.unflatten_as(spec.actions, actions))
            else:
                step = environment.reset()
            views.step_type[lanes] = step.step_type
            views.reward[lanes] = step.reward
            views.discount[lanes] = step.discount
            leaves = tree.flatten(step.observation)
            for view, leaf in zip(views.observation, leaves):
                view[lanes] = leaf
            pipe.send_bytes(ready)
    finally:
        environment.close()


if __name__ == '__main__':
    main()
