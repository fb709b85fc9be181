"""IMPALA: `Config` (hyperparameters), and `builder`, `loss` and `networks`."""

from repertory.agents.impala.config import PAPER, Config

__all__ = ['PAPER', 'Config']
