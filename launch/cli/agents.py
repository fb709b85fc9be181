"""`repertory agents`."""

from __future__ import annotations

from collections.abc import Sequence

import rich.console
import rich.table

from repertory.launch.cli import calling, names


def agents() -> int:
    """Lists the agents, with their presets."""
    table = rich.table.Table('agent', 'paper', 'presets')
    for name in names.agent_names():
        readme = (names.agent_folder(name) / 'README.md').read_text()
        paper = readme.split('\n\n', 2)[1].partition('https://')[0].strip(' ,\n')
        table.add_row(name, ' '.join(paper.split()), ', '.join(names.presets(name)))
    rich.console.Console().print(table)
    return 0


def main(arguments: Sequence[str]) -> int:
    return calling.call(agents, 'repertory agents', arguments)
