"""Environments by id.

An id may carry options, as a web address does: `control:walker:walk?action_repeat=2&
concat=true`. Those of `wrapping` fit every environment; `catch`, `memory_chain` and
`atari:` take the keyword arguments of what they make besides.

Floating-point actions with finite bounds are rescaled to [-1, 1], as agents for
continuous control need them: `canonical=false` leaves them as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import dm_env

from repertory.components.environments import (
    catch,
    control_suite,
    memory_chain,
    wrapping,
)
from repertory.components.environments.wrappers import (
    canonical_actions,
    gymnasium,
    single_precision,
)


def is_known(name: str) -> bool:
    """Says whether `name` begins as the names of this module do."""
    return name.partition('?')[0].partition(':')[0] in _FAMILIES


def list_names(family: str) -> list[str]:
    """Returns the names of a family; importing its package may take seconds.

    Raises:
        ValueError: if there is no such family.
        ImportError: if its package is not installed.
    """
    if family not in _LISTS:
        raise ValueError(f'family must be one of {", ".join(_LISTS)}, got {family!r}.')
    return sorted(_LISTS[family]())


def make_environment(name: str, seed: int) -> dm_env.Environment:
    """Returns a new environment, in single precision.

    Args:
        name: `catch`, `memory_chain`, `gym:CartPole-v1`, `atari:Pong`,
            `control:cartpole:swingup` or `bsuite:memory_len/0`, say; with options as
            the module's docstring has them.
        seed: in [0, 2^31).

    Raises:
        ValueError: if there is no such environment or option, naming near ones, or if
            the package that it comes from is not installed, saying how to install it.
    """
    base_name, _, query = name.partition('?')
    options = wrapping.parse_query(query)
    family, _, rest = base_name.partition(':')
    if family not in _FAMILIES or bool(rest) != (family in _EXTRAS):
        raise ValueError(wrapping.unknown('name', name, [*_BUILT_IN, *_EXAMPLES]))
    wrappers = {key: options.pop(key) for key in wrapping.WRAPPERS if key in options}
    maker = _FAMILIES[family]
    arguments = _parse_options(base_name, maker, options)
    try:
        environment = maker(rest, seed, **arguments)
    except ImportError as error:
        extra = _EXTRAS.get(family)
        if extra is None:
            raise
        raise ValueError(
            f'name must be an environment that is installed, got {name!r} without '
            f"what it needs ({error}); pip install '{extra}'."
        ) from error
    except OSError as error:
        raise ValueError(
            f'name must be an environment whose data are here, got {name!r} without '
            f'them ({error}); it loads them once, over a network.'
        ) from error
    if canonical_actions.fits(environment.action_spec()):
        wrappers = {'canonical': 'true', **wrappers}
    return single_precision.wrap(wrapping.wrap(environment, wrappers))


def _make_catch(rest: str, seed: int, *, rows: int = 10, columns: int = 5):
    del rest
    return catch.Catch(seed, rows, columns)


def _make_memory_chain(
    rest: str,
    seed: int,
    *,
    num_symbols: int = 4,
    query_period: int = 8,
    num_queries: int = 6,
):
    del rest
    return memory_chain.MemoryChain(seed, num_symbols, query_period, num_queries)


def _gym_names() -> list[str]:
    import gymnasium as gym

    return [f'gym:{known}' for known in gym.registry]


def _atari_names() -> list[str]:
    from ale_py import roms

    return [f'atari:{_camel(rom)}' for rom in roms.get_all_rom_ids()]


def _control_names() -> list[str]:
    return [
        f'control:{":".join(known)}' for known in control_suite.import_suite().ALL_TASKS
    ]


def _bsuite_names() -> list[str]:
    from bsuite import sweep

    return [f'bsuite:{known}' for known in sweep.SETTINGS]


def _make_gym(name: str, seed: int):
    import gymnasium as gym

    try:
        environment = gym.make(name, disable_env_checker=True)
    except gym.error.DependencyNotInstalled as error:
        raise ImportError(str(error)) from error
    except gym.error.Error as error:
        raise ValueError(
            wrapping.unknown('name', f'gym:{name}', _gym_names())
        ) from error
    return gymnasium.Gymnasium(environment, seed)


def _make_atari(
    game: str,
    seed: int,
    *,
    num_frames: int = 4,
    full_action_set: bool = False,
    max_noops: int = 30,
    life_loss_discount: float = 0.0,
    clip_rewards: bool = False,
    sticky_actions: float = 0.0,
):
    from repertory.components.environments.wrappers import atari

    try:
        atari.rom_name(game)
    except ValueError as error:
        raise ValueError(
            wrapping.unknown('name', f'atari:{game}', _atari_names())
        ) from error
    return atari.make(
        game,
        seed,
        num_frames=num_frames,
        full_action_set=full_action_set,
        max_noops=max_noops,
        life_loss_discount=life_loss_discount,
        clip_rewards=clip_rewards,
        sticky_actions=sticky_actions,
    )


def _make_control(name: str, seed: int):
    domain, _, task = name.partition(':')
    if (domain, task) not in control_suite.import_suite().ALL_TASKS:
        raise ValueError(wrapping.unknown('name', f'control:{name}', _control_names()))
    return control_suite.load(domain, task, seed)


def _make_bsuite(name: str, seed: int):
    from bsuite import bsuite, sweep

    if name not in sweep.SETTINGS:
        raise ValueError(wrapping.unknown('name', f'bsuite:{name}', _bsuite_names()))
    experiment = name.partition('/')[0]
    arguments = dict(sweep.SETTINGS[name])
    load = bsuite.EXPERIMENT_NAME_TO_ENVIRONMENT[experiment]
    takes_seed = 'seed' in inspect.signature(load).parameters
    if takes_seed and arguments.get('seed') is None:
        arguments['seed'] = seed
    return load(**arguments)


_BUILT_IN = ('catch', 'memory_chain')
_EXAMPLES = (
    'gym:CartPole-v1',
    'atari:Pong',
    'control:cartpole:swingup',
    'bsuite:memory_len/0',
)
_FAMILIES: dict[str, Callable[..., dm_env.Environment]] = {
    'catch': _make_catch,
    'memory_chain': _make_memory_chain,
    'gym': _make_gym,
    'atari': _make_atari,
    'control': _make_control,
    'bsuite': _make_bsuite,
}
_LISTS: dict[str, Callable[[], list[str]]] = {
    'built-in': lambda: [*_BUILT_IN],
    'gym': _gym_names,
    'atari': _atari_names,
    'control': _control_names,
    'bsuite': _bsuite_names,
}
_EXTRAS = {
    'gym': 'gymnasium',
    'atari': 'repertory[atari]',
    'control': 'repertory[control]',
    'bsuite': 'repertory[bsuite]',
}


def _parse_options(
    name: str, maker: Callable[..., Any], options: dict[str, str]
) -> dict[str, Any]:
    parameters = {
        key: type(parameter.default)
        for key, parameter in inspect.signature(maker).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for key in options:
        if key not in parameters:
            known = [*parameters, *wrapping.WRAPPERS]
            raise ValueError(wrapping.unknown(f'option of {name}', key, known))
    return {
        key: wrapping.parse(key, text, parameters[key]) for key, text in options.items()
    }


def _camel(rom: str) -> str:
    return ''.join(part.capitalize() for part in rom.split('_'))
