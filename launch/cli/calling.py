"""How a command's function is called with what was typed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tyro


def call(
    function: Callable[..., Any],
    program: str,
    arguments: Sequence[str],
    examples: Sequence[str] = (),
    others_allowed: bool = False,
) -> Any:
    """Returns what `function` returns for the flags in `arguments`.

    Its parameters are the flags, explained by its docstring; `--help` shows the
    docstring's first line and the examples. With `others_allowed` the result comes
    with the list of those arguments that are no flags of its own.
    """
    documented = function.func if isinstance(function, functools.partial) else function
    summary = (inspect.getdoc(documented) or '').partition('\n')[0]
    lines = ''.join(f'\n  {example}' for example in examples)
    return tyro.cli(
        function,
        prog=program,
        args=list(arguments),
        return_unknown_args=others_allowed,  # type: ignore[call-overload]
        description=summary + (f'\n\nexamples:{lines}' if lines else ''),
    )
