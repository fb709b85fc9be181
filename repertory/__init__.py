"""Repertory: components, replay, agents and launchers for reinforcement learning."""

from __future__ import annotations

import os
import sys
import warnings
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repertory.launch import exported

# TensorFlow tells of missing GPUs and of the CPU's features wherever it is imported;
# its errors are still shown.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
# Its faster kernels for CPUs, which later releases use unasked: learner steps took 0.6
# to 0.8 of the time. It looks once, when it is imported.
if 'TF_ENABLE_ONEDNN_OPTS' not in os.environ:
    os.environ['TF_ENABLE_ONEDNN_OPTS'] = '1'
    if 'tensorflow' in sys.modules:
        warnings.warn(
            'TensorFlow was imported before repertory, so its faster kernels for CPUs '
            'are off in this process; import repertory first, or set '
            'TF_ENABLE_ONEDNN_OPTS=1 (0 if they shall be off) before Python starts.',
            stacklevel=2,
        )

__version__ = metadata.version('repertory')


def load_policy(run_dir: str | os.PathLike) -> exported.ExportedPolicy:
    """Returns the policy that a run has exported; see `launch.exported.load_policy`.

    Raises:
        FileNotFoundError: if the run has none yet.
    """
    from repertory.launch import exported  # Imports TensorFlow.

    return exported.load_policy(run_dir)
