"""Rows at Weights & Biases; needs the extra `wandb`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repertory.components import core
from repertory.components.loggers import values as values_lib


class WandBLogger(core.Logger):
    """Sends each row to a run of its own."""

    def __init__(
        self, project: str = 'repertory', step_name: str = 'actor_steps', **init: Any
    ) -> None:
        """Starts the run.

        Args:
            project: the project's name there.
            step_name: the value that the other values are drawn against.
            **init: what else `wandb.init` takes, such as `name` and `group`.

        Raises:
            ImportError: if the extra is not installed.
        """
        try:
            import wandb
        except ImportError as error:
            raise ImportError(
                'WandBLogger needs the package wandb, which is not installed; '
                "pip install 'repertory[wandb]', or leave this logger out."
            ) from error
        self._run = wandb.init(project=project, **init)
        self._run.define_metric('*', step_metric=step_name)

    def write(self, values: Mapping[str, Any]) -> None:
        self._run.log(values_lib.flatten(values))

    def close(self) -> None:
        self._run.finish()
