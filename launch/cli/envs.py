"""`repertory envs [FAMILY]`."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import rich.console
import rich.table
import tyro

from repertory.components.environments import registry
from repertory.launch.cli import calling

# Family -> an example, the package it is from, what installs that.
_FAMILIES = {
    'built-in': ('catch', 'repertory', ''),
    'gym': ('gym:CartPole-v1', 'gymnasium', 'gymnasium'),
    'atari': ('atari:Pong', 'ale_py', 'repertory[atari]'),
    'control': ('control:cartpole:swingup', 'dm_control', 'repertory[control]'),
    'bsuite': ('bsuite:memory_len/0', 'bsuite', 'repertory[bsuite]'),
}


def envs(family: tyro.conf.Positional[str | None] = None) -> int:
    """Lists the families of environments, or the names in one.

    Args:
        family: built-in, gym, atari, control or bsuite.
    """
    if family is not None:
        print('\n'.join(registry.list_names(family)))
        return 0
    table = rich.table.Table('family', 'for example', 'installed')
    for name, (example, package, extra) in _FAMILIES.items():
        found = importlib.util.find_spec(package) is not None
        table.add_row(name, example, 'yes' if found else f"no: pip install '{extra}'")
    console = rich.console.Console()
    console.print(table, markup=False)
    console.print(
        '`repertory envs FAMILY` lists the names. Options follow as in a web address: '
        'control:walker:walk?action_repeat=2. Your own: --env MODULE:FUNCTION.',
        soft_wrap=True,
        markup=False,
    )
    return 0


def main(arguments: Sequence[str]) -> int:
    return calling.call(
        envs,
        'repertory envs',
        arguments,
        ['repertory envs', 'repertory envs gym'],
    )
