"""Loggers: each takes rows of named values, and none imports TensorFlow.

A value is a number or a string; a mapping within a row has its names joined by '/'.
Non-finite numbers are written as such.
"""

from repertory.components.loggers.csv_logger import CSVLogger
from repertory.components.loggers.tee import Tee
from repertory.components.loggers.tensorboard_logger import TensorBoardLogger
from repertory.components.loggers.terminal_logger import TerminalLogger
from repertory.components.loggers.throttle import Throttle
from repertory.components.loggers.wandb_logger import WandBLogger

__all__ = (
    'CSVLogger',
    'Tee',
    'TensorBoardLogger',
    'TerminalLogger',
    'Throttle',
    'WandBLogger',
)
