"""Reference values of existing libraries; tests/golden/README.md says how to read."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

_FOLDER = pathlib.Path(__file__).parent / 'golden'


@dataclasses.dataclass(frozen=True)
class Case:
    params: dict
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    atol32: dict[str, float]

    def tensors(self, dtype: str) -> dict[str, tf.Tensor]:
        """Returns the inputs, floats cast to `dtype`."""
        return {
            name: tf.constant(x.astype(dtype) if x.dtype.kind == 'f' else x)
            for name, x in self.inputs.items()
        }

    def check(self, **actual) -> None:
        """Compares arrays, by name, at the tolerance that their dtype allows."""
        for name, got in actual.items():
            got, want = np.asarray(got), self.expected[name]
            assert got.shape == want.shape, name
            if got.dtype == np.float64:
                rtol, atol = 1e-9, 1e-12 * max(1.0, np.abs(want).max())
            else:
                rtol, atol = 1e-5, self.atol32.get(name, 0.0)
            np.testing.assert_allclose(got, want, rtol, atol, err_msg=name)


def cases(topic: str, kind: str) -> list:
    """Returns a pytest parameter for each case of `kind` in the file of `topic`."""
    archive, index = _load(topic)
    found = []
    for case, info in index.items():
        if info['kind'] != kind:
            continue
        arrays = [
            {k.split('/')[2]: archive[k] for k in archive if k.startswith(prefix)}
            for prefix in (f'{case}/in/', f'{case}/out/')
        ]
        value = Case(info['params'], *arrays, info.get('atol32', {}))
        found.append(pytest.param(value, id=f'{kind}-{info["name"]}'))
    assert found, f'no case of kind {kind} in {topic}.npz'
    return found


@functools.cache
def _load(topic: str) -> tuple[dict[str, np.ndarray], dict]:
    with np.load(_FOLDER / f'{topic}.npz') as archive:
        arrays = dict(archive)
    return arrays, json.loads(str(arrays.pop('index')))
