"""What tests need of the machine that they run on."""

import importlib.util
import pathlib

import pytest

# Not what the code finds, which would skip its own tests when it finds none.
_SYSTEM = pathlib.Path('/usr/lib').glob('**/libjemalloc.so.2')
jemalloc = pytest.mark.skipif(
    importlib.util.find_spec('ray') is None and next(_SYSTEM, None) is None,
    reason="neither Ray's jemalloc nor the system's is installed",
)
