"""Who may import whom, what starts without TensorFlow, and how long code may be."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A part may import itself and those before it.
PARTS = ('components', 'replay', 'agents', 'launch')
# Packages that only some parts may import, and those parts.
RESERVED = {
    'reverb': ('replay', 'launch'),
    'launchpad': ('launch',),
    'courier': ('launch',),
    'ray': ('launch',),
}
# The command and the coordinator start in under a second: importing any of these
# loads none of HEAVY.
LIGHT = (
    'components/types.py',
    'components/specs.py',
    'components/core.py',
    'components/environments/**/*.py',
    'components/loggers/__init__.py',
    'components/loggers/csv_logger.py',
    'components/loggers/terminal_logger.py',
    'replay/tables.py',
    'agents/builder.py',
    'agents/*/__init__.py',
    'agents/*/config.py',
    'launch/experiment.py',
    'launch/program.py',
    'launch/progress.py',
    'launch/nodes.py',
    'launch/coordinator.py',
    'launch/display.py',
    'launch/control.py',
    'launch/processes.py',
    'launch/supervisor.py',
    'launch/run_folder.py',
    'launch/curves.py',
    'launch/plots.py',
    'launch/cli/*.py',
)
HEAVY = ('tensorflow', 'sonnet', 'reverb', 'ray')
MAX_AGENT_LINES, MAX_FILE_LINES, MAX_FUNCTION_LINES = 500, 300, 60

FILES = sorted(file for part in PARTS for file in (ROOT / part).rglob('*.py'))
AGENTS = sorted(file.parent for file in (ROOT / 'agents').glob('*/__init__.py'))


def name_of(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


def imports_of(file: pathlib.Path) -> set[str]:
    """Returns all that `file` imports, at any depth, dotted; names count as modules."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f'{name_of(file)} must import absolutely'
            found |= {f'{node.module}.{alias.name}' for alias in node.names}
    return found


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f'{package}.')


@pytest.mark.parametrize('file', FILES, ids=name_of)
def test_parts_import_only_those_below_them(file):
    part = file.relative_to(ROOT).parts[0]
    above = PARTS[PARTS.index(part) + 1 :]
    imported = imports_of(file)
    for other in above:
        wrong = [m for m in imported if is_within(m, f'repertory.{other}')]
        assert not wrong, f'{part} must not import {wrong}'
    for package, allowed in RESERVED.items():
        if part not in allowed:
            wrong = [m for m in imported if is_within(m, package)]
            assert not wrong, f'only {allowed} may import {wrong}'
    for package in ('tests', 'examples', 'benchmarks', 'trfl', 'rlax', 'acme'):
        assert not [m for m in imported if is_within(m, package)], package


@pytest.mark.parametrize('folder', AGENTS, ids=name_of)
def test_an_agent_imports_no_other_agent(folder):
    others = [agent.name for agent in AGENTS if agent != folder]
    for file in folder.rglob('*.py'):
        for other in others:
            wrong = [
                m for m in imports_of(file) if is_within(m, f'repertory.agents.{other}')
            ]
            assert not wrong, f'{name_of(file)} must not import {wrong}'


@pytest.mark.parametrize('folder', AGENTS, ids=name_of)
def test_an_agent_is_short(folder):
    lines = sum(len(file.read_text().splitlines()) for file in folder.rglob('*.py'))
    assert lines <= MAX_AGENT_LINES


@pytest.mark.parametrize('file', FILES, ids=name_of)
def test_files_and_functions_are_short(file):
    text = file.read_text()
    assert len(text.splitlines()) <= MAX_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = node.end_lineno - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f'{node.name} has {length} lines'


@pytest.mark.parametrize('pattern', LIGHT)
def test_light_modules_load_nothing_heavy(pattern):
    files = sorted(ROOT.glob(pattern))
    assert files, f'{pattern} matches no file; mend LIGHT.'
    modules = [
        'repertory.' + name_of(file)[:-3].replace('/', '.').removesuffix('.__init__')
        for file in files
    ]
    code = (
        'import importlib, sys\n'
        f'for name in {modules}:\n'
        '    importlib.import_module(name)\n'
        f'    loaded = [one for one in {HEAVY} if one in sys.modules]\n'
        "    assert not loaded, f'{name} loads {loaded}'\n"
    )
    out = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
