"""Agents, presets and environments by the names used on the command line."""

from __future__ import annotations

import difflib
import importlib
import pathlib
import pkgutil
from collections.abc import Callable
from typing import Any

from repertory import agents
from repertory.agents import builder
from repertory.components.environments import registry, wrapping
from repertory.launch import scripts


def agent_names() -> list[str]:
    """Returns the agents' command names: folders of `agents/` that have a config."""
    return [
        module.name.replace('_', '-')
        for module in pkgutil.iter_modules(agents.__path__)
        if module.ispkg and (agent_folder(module.name) / 'config.py').exists()
    ]


def agent_folder(agent: str) -> pathlib.Path:
    """Returns the folder of the agent of this command name."""
    return pathlib.Path(agents.__path__[0]) / _module(agent)


def check_agent(agent: str) -> None:
    """Refuses a name that is no agent's.

    Raises:
        ValueError: naming the agents, and near ones.
    """
    names = agent_names()
    if agent not in names:
        near = difflib.get_close_matches(agent, names, n=1)
        hint = f'; did you mean {near[0]}?' if near else '.'
        raise ValueError(
            f'agent must be one of {", ".join(names)}, got {agent!r}{hint}'
        )


def presets(agent: str) -> dict[str, builder.AgentConfig]:
    """Returns the agent's sets of hyperparameters by name, `default` first."""
    module = importlib.import_module(f'{agents.__name__}.{_module(agent)}.config')
    return {'default': module.Config(), **getattr(module, 'PRESETS', {})}


def environment(text: str) -> str | Callable[[int], Any]:
    """Returns a known environment's name as it is, or what `module:factory` names.

    After a '?', such a factory takes the options that every environment does.

    Raises:
        ValueError: if it is neither, or there is no such option.
    """
    if registry.is_known(text) or ':' not in text:
        return text
    path, _, options = text.partition('?')
    try:
        factory = scripts.find(path)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f'env must be a known name (see `repertory envs`) or MODULE:FUNCTION of '
            f'your own, got {text!r}: {error}.'
        ) from error
    if not callable(factory):
        raise ValueError(
            f'env must name a function (seed) -> dm_env.Environment, got {text!r}, '
            f'which is a {type(factory).__name__}.'
        )
    return wrapping.Wrapped(factory, options) if options else factory


def _module(agent: str) -> str:
    return agent.replace('-', '_')
