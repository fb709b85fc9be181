"""docs/cases.md names tests that exist, for every fault that a unit can show."""

import ast
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROWS = re.findall(
    r'^\| (C\d\d) \|[^|]*\|(.*)\|$', (ROOT / 'docs' / 'cases.md').read_text(), re.M
)
# Must not ship or should be right, and shown in seconds or in one process.
REQUIRED = (
    'C01 C02 C04 C05 C08 C10 C11 C13 C15 C17 C19 C21 C25 C26 C28 C31 C32 C39 C56 C58 '
    'C59 C60 C62 C63 C65 C67 C69 C75 C76 C78 C82 C87 C89 C93 C97'
).split()


@functools.cache
def _names(path):
    tree = ast.parse((ROOT / 'tests' / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_case_has_a_row():
    assert set(REQUIRED) <= {case for case, _ in ROWS}
    assert len({case for case, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(('case', 'here'), ROWS, ids=[case for case, _ in ROWS])
def test_the_tests_of_a_case_exist(case, here):
    tests = re.findall(r'`([\w/]+_test\.py)::(\w+)`', here)
    assert tests, f'{case} names no test'
    for path, name in tests:
        assert name in _names(path), f'{case}: {path} has no {name}'
