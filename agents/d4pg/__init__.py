"""D4PG and D3PG: `Config` (hyperparameters), and `builder`, `loss` and `learning`."""

from repertory.agents.d4pg.config import PAPER, Config

__all__ = ['PAPER', 'Config']
