"""`repertory config AGENT`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Sequence
from typing import Any

import rich.console
import rich.table
import tyro

from repertory.launch.cli import calling, names


def config(agent: tyro.conf.Positional[str]) -> int:
    """Lists every setting of an agent: default, other presets, unit and meaning.

    Args:
        agent: as `repertory agents` lists them.
    """
    names.check_agent(agent)
    presets = names.presets(agent)
    default = presets.pop('default')
    table = rich.table.Table(
        rich.table.Column('setting', no_wrap=True), 'default', 'meaning; other presets'
    )
    meanings = field_docs(type(default))
    for field in dataclasses.fields(default):
        value = getattr(default, field.name)
        others = {name: getattr(one, field.name) for name, one in presets.items()}
        differing = [
            f'{name}: {_describe(other)}'
            for name, other in others.items()
            if other != value
        ]
        lines = [meanings[field.name], *filter(None, ['; '.join(differing)])]
        table.add_row(field.name, _describe(value), '\n'.join(lines))
    console = rich.console.Console()
    console.print(table)
    console.print(
        f'On the command line batch_size is --batch-size. Where the values come from: '
        f'{names.agent_folder(agent) / "README.md"}',
        soft_wrap=True,
    )
    return 0


def field_docs(kind: type) -> dict[str, str]:
    """Returns what stands below each field of a dataclass, bases included."""
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        assert isinstance(tree.body[0], ast.ClassDef)
        body = tree.body[0].body
        for statement, following in zip(body, body[1:]):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
            ):
                text = inspect.cleandoc(str(following.value.value))
                docs[statement.target.id] = text.replace('\n', ' ')
    return docs


def _describe(value: Any) -> str:
    if isinstance(value, tuple):
        return ' '.join(map(str, value))  # As on the command line.
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return f'{value:,}'.replace(',', '_') if is_number else str(value)


def main(arguments: Sequence[str]) -> int:
    return calling.call(
        config, 'repertory config', arguments, ['repertory config apex-dqn']
    )
