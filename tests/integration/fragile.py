"""Catch that fails once when asked to; nodes import it by name."""

from __future__ import annotations

import os
import pathlib

from repertory.components.environments import catch

VARIABLE = 'FRAGILE_CATCH_FILE'


class FragileCatch(catch.Catch):
    """Raises, in whichever process is first, once the file is there; removes it."""

    def step(self, action):
        path = pathlib.Path(os.environ[VARIABLE])
        if path.exists():
            path.unlink(missing_ok=True)
            raise ValueError('this environment is broken')
        return super().step(action)


def make(seed):
    return FragileCatch(seed=seed)
