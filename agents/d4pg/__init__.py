"""D4PG and D3PG: `Config` (hyperparameters), and `builder`, `loss` and `learning`."""

from repertory.agents.d4pg.config import CONTROL, PAPER, PENDULUM, Config

__all__ = ['CONTROL', 'PAPER', 'PENDULUM', 'Config']
