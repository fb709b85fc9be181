"""R2D2: `Config` (hyperparameters), and `builder`, `loss` and `networks`."""

from repertory.agents.r2d2.config import PAPER, Config

__all__ = ['PAPER', 'Config']
