"""Ape-X DPG: `Config` (hyperparameters), and `builder` and `loss`."""

from repertory.agents.apex_dpg.config import PAPER, PENDULUM, Config

__all__ = ['PAPER', 'PENDULUM', 'Config']
