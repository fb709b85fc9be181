"""Hands on to the package, where Python finds this checkout by its name.

A folder `repertory` beside a script, as a clone mostly is, comes before what is
installed. Without this file it would be an empty package of that name.
"""

import importlib.util
import pathlib
import sys

_FILE = pathlib.Path(__file__).parent / 'repertory' / '__init__.py'
_spec = importlib.util.spec_from_file_location(
    __name__,
    _FILE,
    # The parts are this checkout's too, whichever is installed.
    submodule_search_locations=[str(_FILE.parent), str(_FILE.parents[1])],
)
assert _spec is not None and _spec.loader is not None
sys.modules[__name__] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules[__name__])
