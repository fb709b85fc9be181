"""oneDNN's kernels are on where networks need them, and only there."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
import tensorflow as tf

from repertory.components import compiled, kernels


@pytest.fixture
def unset(monkeypatch):
    monkeypatch.delenv(kernels.VARIABLE, raising=False)


@pytest.mark.parametrize(
    'largest_weight, expected',
    [
        (kernels.WIDE, {}),
        (kernels.WIDE + 1, {kernels.VARIABLE: '1'}),
        (float('inf'), {kernels.VARIABLE: '1'}),
    ],
)
def test_they_are_on_for_wide_layers(unset, largest_weight, expected):
    assert kernels.variables(largest_weight) == expected


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, '0')
    assert kernels.variables(float('inf')) == {}


@pytest.mark.parametrize('first, expected', [('', '1'), ('import tensorflow', 'None')])
def test_a_process_that_has_imported_tensorflow_goes_without(unset, first, expected):
    code = f"""
{first}
import os
from repertory.components import kernels
kernels.set_here({{kernels.VARIABLE: '1'}})
print(os.environ.get(kernels.VARIABLE))
"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.parametrize(
    'shape, setting, told',
    [
        ([362, 362], None, False),
        ([512, 512], None, True),
        ([3, 3, 1, 1], None, True),
        ([512, 512], '0', False),
        ([512, 512], '1', False),
    ],
)
def test_a_learner_that_lacks_them_says_so(
    unset, monkeypatch, caplog, shape, setting, told
):
    if setting is not None:
        monkeypatch.setenv(kernels.VARIABLE, setting)
    with caplog.at_level(logging.WARNING):
        small = compiled.is_small_learner([tf.Variable(tf.zeros(shape))])
    assert small == (shape == [362, 362])
    assert (kernels.VARIABLE in caplog.text) == told
