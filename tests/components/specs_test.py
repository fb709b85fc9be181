from __future__ import annotations

import numpy as np
import pytest
from dm_env import specs as dm_specs

from repertory.components import specs

ARRAY = dm_specs.Array((2,), np.float32)


@pytest.mark.parametrize(
    ('nest', 'message'),
    [
        ({}, r'hold a number at least .*got \{\}; .* give zeros \[1\]'),
        ((), 'hold a number at least'),
        ({'a': dm_specs.Array((0,), np.float32), 'b': ARRAY}, r'hold .*float32\[0\]'),
        ([ARRAY], 'made of dicts and tuples, got a list in .*: take a tuple'),
        ({'a': (ARRAY, [ARRAY, ARRAY])}, 'made of dicts and tuples'),
    ],
)
def test_specs_that_cannot_be_learned_from_are_refused(nest, message):
    with pytest.raises(ValueError, match=f'observation_spec must (be )?{message}'):
        specs.check_nest(nest, 'observation_spec')


def test_other_specs_are_taken():
    for nest in ARRAY, (ARRAY, {'b': ARRAY, 'a': ()}), {'b': (ARRAY,)}:
        specs.check_nest(nest, 'observation_spec')
