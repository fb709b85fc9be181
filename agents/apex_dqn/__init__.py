"""Ape-X DQN: `Config` (hyperparameters), and `builder`, `loss` and `networks`."""

from repertory.agents.apex_dqn.config import PAPER, Config

__all__ = ['PAPER', 'Config']
