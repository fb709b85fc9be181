import collections
import types as types_lib

import pytest
import tree

from repertory.components import nests, types


def test_an_unflattener_does_what_tree_does():
    structure = (
        types.TimeStep(0, {'b': [0, ()], 'a': 0}, (), 0),
        collections.OrderedDict(z=0, y=(0,)),
        [],
    )
    unflatten = nests.unflattener(structure)
    for leaves in ([1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]):
        assert unflatten(leaves) == tree.unflatten_as(structure, leaves)
    assert type(unflatten(leaves)[0]) is types.TimeStep
    assert list(unflatten(leaves)[0][1]) == ['b', 'a']
    assert type(unflatten(leaves)[1]) is collections.OrderedDict
    mapping = types_lib.MappingProxyType({'b': 0, 'a': (0, 0)})
    rebuilt = nests.unflattener((mapping, 0))([1, 2, 3, 4])
    assert (dict(rebuilt[0]), rebuilt[1]) == ({'a': (1, 2), 'b': 3}, 4)
    assert nests.unflattener(0)([7]) == 7
    for leaves in ([1] * 5, [1] * 7):
        with pytest.raises(ValueError, match=f'leaves must be 6, .* got {len(leaves)}'):
            unflatten(leaves)
