"""D4PG and D3PG: `Config` (hyperparameters), and `builder`, `loss` and `learning`."""

from repertory.agents.d4pg.config import PAPER, PENDULUM, Config

__all__ = ['PAPER', 'PENDULUM', 'Config']
