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


@pytest.mark.parametrize(
    'first, variable, works',
    [
        ('import repertory', '1', True),
        ('import tensorflow', 'None', False),
        ('import launchpad', 'None', False),
    ],
)
def test_a_process_that_has_loaded_tensorflow_goes_without(
    unset, first, variable, works
):
    code = f"""
{first}
import ctypes, os
from repertory.components import kernels
kernels.set_here({{kernels.VARIABLE: '1'}})
import tensorflow as tf
folder = tf.sysconfig.get_lib()
library = ctypes.CDLL(f'{{folder}}/libtensorflow_framework.so.2')
is_on = library['_ZN10tensorflow12IsMKLEnabledEv']
is_on.restype = ctypes.c_bool
print(os.environ.get(kernels.VARIABLE), is_on())
"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.stdout.split() == [variable, str(works)], done.stderr


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
