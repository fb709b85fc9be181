import collections
import types as types_lib

import attr
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
    # Of other types is more than their parts: a defaultdict has its function.
    default = collections.defaultdict(list, b=0, a=0)
    assert nests.unflattener((default,))([1, 2]) == tree.unflatten_as(
        (default,), [1, 2]
    )
    assert nests.unflattener(default)([1, 2]).default_factory is list
    for leaves in ([1] * 5, [1] * 7):
        with pytest.raises(ValueError, match=f'leaves must be 6, .* got {len(leaves)}'):
            unflatten(leaves)


@attr.s(auto_attribs=True)
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ('structure', 'same', 'others'),
    [
        (0, 7, []),
        (
            {'b': 0, 'a': 0},
            collections.OrderedDict(b=1, a=2),
            [{'a': 0}, {'a': 0, 'c': 0}, (0, 0), {'a': 0, 'b': 0, 'c': 0}, 0],
        ),
        ({'b': 0, 'a': 0}, types_lib.MappingProxyType({'a': 1, 'b': 2}), []),
        (
            ({'x': [0, 0]}, 0),
            ({'x': [1, 2]}, 3),
            [({'x': [0]}, 0), ({'x': (0, 0)}, 0), ({'y': [0, 0]}, 0), [{'x': [0]}, 0]],
        ),
        (types.TimeStep(0, 0, 0, 0), types.TimeStep(1, 2, 3, 4), [(0, 0, 0, 0)]),
        ([Point(0, 0), {}], [Point(1, 2), {}], [[(0, 0), {}], [Point(0, 0)]]),
    ],
)
def test_a_flattener_does_what_tree_does_and_compares(structure, same, others):
    flatten = nests.flattener(structure)
    assert flatten(same) == tree.flatten(same)
    for other in others:
        with pytest.raises((TypeError, ValueError)):
            flatten(other)


def test_a_flattener_makes_no_entry_where_a_name_is_missing():
    lacking = collections.defaultdict(int, a=1, c=2)
    with pytest.raises(ValueError, match='other names'):
        nests.flattener({'a': 0, 'b': 0})(lacking)
    assert dict(lacking) == {'a': 1, 'c': 2}
