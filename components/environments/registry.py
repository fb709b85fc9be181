"""Environments by id.

An id may carry options, as a web address does: `control:walker:walk?action_repeat=2&
concat=true`. Those of `_WRAPPERS` fit every environment; `catch`, `memory_chain`
and `atari:` take the keyword arguments of what they make besides.

Floating-point actions with finite bounds are rescaled to [-1, 1], as agents for
continuous control need them: `canonical=false` leaves them as they are.
"""

from __future__ import annotations

import difflib
import inspect
import threading
import urllib.parse
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import dm_env

from repertory.components.environments import catch, memory_chain
from repertory.components.environments.wrappers import (
    action_repeat,
    canonical_actions,
    concat_observations,
    frame_stack,
    gymnasium,
    observation_action_reward,
    reward_scale,
    single_precision,
    step_limit,
)

# Option -> its type and the wrapper; the first one is innermost.
_WRAPPERS: dict[str, tuple[type, Callable[..., dm_env.Environment]]] = {
    'action_repeat': (int, action_repeat.ActionRepeat),
    'step_limit': (int, step_limit.StepLimit),
    'reward_scale': (float, reward_scale.RewardScale),
    'canonical': (bool, canonical_actions.CanonicalActions),
    'concat': (bool, concat_observations.ConcatObservations),
    'frame_stack': (int, frame_stack.FrameStack),
    'action_reward': (bool, observation_action_reward.ObservationActionReward),
}


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
    options = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    family, _, rest = base_name.partition(':')
    if family not in _FAMILIES or bool(rest) != (family in _EXTRAS):
        raise ValueError(_unknown('name', name, [*_BUILT_IN, *_EXAMPLES]))
    wrappers = {key: options.pop(key) for key in _WRAPPERS if key in options}
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
    if canonical_actions.fits(environment.action_spec()):
        wrappers = {'canonical': 'true', **wrappers}
    for key, (kind, wrapper) in _WRAPPERS.items():
        if key not in wrappers:
            continue
        value = _parse(key, wrappers[key], kind)
        if kind is not bool:
            environment = wrapper(environment, value)
        elif value:
            environment = wrapper(environment)
    return single_precision.wrap(environment)


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
    return [f'control:{":".join(known)}' for known in _control_suite().ALL_TASKS]


def _bsuite_names() -> list[str]:
    from bsuite import sweep

    return [f'bsuite:{known}' for known in sweep.SETTINGS]


def _control_suite():
    with warnings.catch_warnings():
        # Of a display, which only rendering needs.
        warnings.simplefilter('ignore')
        from dm_control import suite
    return suite


def _make_gym(name: str, seed: int):
    import gymnasium as gym

    try:
        environment = gym.make(name, disable_env_checker=True)
    except gym.error.DependencyNotInstalled as error:
        raise ImportError(str(error)) from error
    except gym.error.Error as error:
        raise ValueError(_unknown('name', f'gym:{name}', _gym_names())) from error
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
        raise ValueError(_unknown('name', f'atari:{game}', _atari_names())) from error
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
    suite = _control_suite()
    domain, _, task = name.partition(':')
    if (domain, task) not in suite.ALL_TASKS:
        raise ValueError(_unknown('name', f'control:{name}', _control_names()))
    assets, sky = suite.common.ASSETS, './common/skybox.xml'
    with _loading:
        original, assets[sky] = assets[sky], _SKY
        try:
            return suite.load(domain, task, task_kwargs={'random': seed})
        finally:
            assets[sky] = original


def _make_bsuite(name: str, seed: int):
    from bsuite import bsuite, sweep

    if name not in sweep.SETTINGS:
        raise ValueError(_unknown('name', f'bsuite:{name}', _bsuite_names()))
    experiment = name.partition('/')[0]
    arguments = dict(sweep.SETTINGS[name])
    load = bsuite.EXPERIMENT_NAME_TO_ENVIRONMENT[experiment]
    takes_seed = 'seed' in inspect.signature(load).parameters
    if takes_seed and arguments.get('seed') is None:
        arguments['seed'] = seed
    return load(**arguments)


# dm_control's sky has stars, keeps 11 MB and takes 60 ms in each environment. This one
# has none; `fish` keeps its own.
_SKY = (
    b'<mujoco><asset><texture name="skybox" type="skybox" builtin="gradient" '
    b'rgb1=".4 .6 .8" rgb2="0 0 0" width="64" height="64"/></asset></mujoco>'
)
_loading = threading.Lock()  # While this one stands in the other's place.
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
            known = [*parameters, *_WRAPPERS]
            raise ValueError(_unknown(f'option of {name}', key, known))
    return {key: _parse(key, text, parameters[key]) for key, text in options.items()}


def _parse(key: str, text: str, kind: type) -> Any:
    try:
        if kind is bool:
            return {'true': True, 'false': False}[text.lower()]
        return kind(text)
    except (KeyError, ValueError) as error:
        wanted = {bool: 'true or false', int: 'an integer', float: 'a number'}[kind]
        raise ValueError(f'{key} must be {wanted}, got {text!r}.') from error


def _unknown(what: str, given: str, known: Iterable[str]) -> str:
    known = list(known)
    lowered = {one.lower(): one for one in known}
    near = difflib.get_close_matches(given.lower(), lowered, n=3, cutoff=0.5)
    listed = [lowered[one] for one in near] or known[:8]
    return (
        f'{what} must be one that is known, got {given!r}; '
        f'did you mean {", ".join(listed)}?'
    )


def _camel(rom: str) -> str:
    return ''.join(part.capitalize() for part in rom.split('_'))
