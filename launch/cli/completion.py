"""`repertory completion SHELL`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Union

import tyro

from repertory.launch.cli import (
    agents,
    calling,
    config,
    doctor,
    envs,
    evaluate,
    names,
    plot,
    replay,
    request,
    sweep,
)

Shell = Literal['bash', 'zsh', 'fish', 'tcsh']


def completion(shell: tyro.conf.Positional[Shell]) -> int:
    """Prints the script that completes commands, agents and flags.

    Args:
        shell: which shell's.
    """
    with contextlib.suppress(SystemExit):  # Tyro ends so, with 0.
        tyro.extras.subcommand_cli_from_dict(
            _commands(),
            prog='repertory',
            args=['--tyro-print-completion', shell],
            config=[tyro.conf.OmitSubcommandPrefixes],
        )
    return 0


def _commands() -> dict[str, Callable[..., Any]]:
    """Returns all commands as the functions whose parameters are their flags."""
    train = {
        name: request.flags(name, names.presets(name)['default'])
        for name in names.agent_names()
    }
    return {
        'train': _either(train),
        'eval': evaluate.evaluate,
        'plot': plot.plot,
        'sweep': sweep.sweep,
        'agents': agents.agents,
        'config': config.config,
        'envs': envs.envs,
        'replay': _either({'serve': replay.serve, 'info': replay.info}),
        'doctor': doctor.doctor,
        'completion': completion,
    }


def _either(choices: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    kinds = [
        Annotated[Any, tyro.conf.subcommand(name, constructor=function)]
        for name, function in choices.items()
    ]

    def command(choice):
        del choice

    command.__annotations__ = {'choice': functools.reduce(_union, kinds)}
    return command


def _union(first: Any, second: Any) -> Any:
    return Union[first, second]  # noqa: UP007  # `|` takes no Annotated in 3.10.


def main(arguments: Sequence[str]) -> int:
    return calling.call(
        completion,
        'repertory completion',
        arguments,
        [
            'eval "$(repertory completion bash)"',
            'repertory completion zsh > ~/.zfunc/_repertory',
        ],
    )
