"""Whether TensorFlow has oneDNN's kernels for CPUs; nothing here imports TensorFlow.

TensorFlow 2.8 has them, or has them not, for a whole process, by a variable that it
reads once, as its library is loaded: by `import tensorflow`, or by Launchpad. Wide
layers and convolutions learn in 0.6 to 0.9 of the time with them. But then tensors come
from an allocator with one lock for all threads, and a learner of small networks, which
uses none of them, makes 0.65 to 0.9 of its steps: a batch of samples is thousands.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

VARIABLE = 'TF_ENABLE_ONEDNN_OPTS'
# Numbers of a weight. With more, oneDNN saves a learner more than its calls weigh:
# D4PG's step took 0.84 of the time, that of smaller LSTMs up to 1.1 times as long.
WIDE = 2**17


def variables(largest_weight: float) -> dict[str, str]:
    """Returns what a process is to start with; what the user has set stays.

    Args:
        largest_weight: numbers of the largest weight of its networks; infinite for
            convolutions.
    """
    return {VARIABLE: '1'} if largest_weight > WIDE and are_off() else {}


def set_here(chosen: Mapping[str, str]) -> None:
    """Sets `variables` in this process, where TensorFlow has yet to be loaded.

    Programs that are launched from here later have them too.
    """
    if not sys.modules.keys() & {'tensorflow', 'courier'}:
        os.environ.update(chosen)


def are_off() -> bool:
    """Returns whether they are off in this process, and nobody asked for that."""
    return VARIABLE not in os.environ
