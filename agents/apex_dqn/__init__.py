"""Ape-X DQN: `Config` (hyperparameters), and `builder`, `loss` and `networks`."""

from repertory.agents.apex_dqn.config import CARTPOLE, PAPER, Config

__all__ = ['CARTPOLE', 'PAPER', 'Config']
