"""Repertory: components, replay, agents and launchers for reinforcement learning."""

from __future__ import annotations

import os
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repertory.launch import exported

# TensorFlow tells of missing GPUs and of the CPU's features wherever it is imported;
# its errors are still shown.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')

__version__ = metadata.version('repertory')


def load_policy(run_dir: str | os.PathLike) -> exported.ExportedPolicy:
    """Returns the policy that a run has exported; see `launch.exported.load_policy`.

    Raises:
        FileNotFoundError: if the run has none yet.
    """
    from repertory.launch import exported  # Imports TensorFlow.

    return exported.load_policy(run_dir)
