"""What a script defines, found again in another process by the script's path.

A module that runs as `__main__` has no name that imports find. Its classes and
functions are recorded by its path; to read them back the script is run once under
another name, so that what is below `if __name__ == '__main__':` is left out.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pathlib
import sys
from typing import Any

_NAME = 'repertory_script_'
_loading: list[str] = []


def import_path(value: Any) -> str:
    """Returns `module:name` or `/path/script.py:name`; '' for what has no name."""
    name = getattr(value, '__qualname__', None)
    return f'{_module(value.__module__)}:{name}' if name else ''


def find(path: str) -> Any:
    """Returns what `import_path` named.

    Raises:
        ImportError: if there is no such module or script.
        AttributeError: if it has no such name.
    """
    module, _, name = path.rpartition(':')
    if not module or not name:
        raise ImportError(f'{path!r} is not of the form module:name')
    if module == '__main__':
        raise ImportError(f'{name} was defined in an interactive session')
    found = _load(module) if module.endswith('.py') else importlib.import_module(module)
    return functools.reduce(getattr, name.split('.'), found)


def refuse_to_run() -> None:
    """Refuses to start a run while a script is only read.

    Raises:
        RuntimeError: naming the script.
    """
    if _loading:
        raise RuntimeError(
            f"{_loading[-1]} must start runs below `if __name__ == '__main__':` only, "
            'got one where it is read for what it defines.'
        )


def _module(name: str) -> str:
    module = sys.modules.get(name)
    spec = getattr(module, '__spec__', None)
    if name == '__main__' and spec is not None:
        return spec.name  # python -m NAME
    file = getattr(module, '__file__', None) or ''
    if file.endswith('.py') and (name == '__main__' or name.startswith(_NAME)):
        return str(pathlib.Path(file).absolute())
    return name


def _load(path: str) -> Any:
    if _module('__main__') == path:
        return sys.modules['__main__']
    name = _NAME + path.removesuffix('.py').replace('.', '_')
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not pathlib.Path(path).is_file():
            raise ImportError(f'there is no script {path}')
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # Its dataclasses look it up.
        _loading.append(path)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        finally:
            _loading.pop()
    return sys.modules[name]
