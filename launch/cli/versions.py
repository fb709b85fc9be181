"""Which versions are installed, and whether they fit each other."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata

_MODULES = {
    'tensorflow': 'tensorflow',
    'dm-reverb': 'reverb',
    'dm-launchpad': 'courier',
}


def installed(package: str) -> str | None:
    """Returns the version of `package`, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def problems(good: Mapping[str, str]) -> list[str]:
    """Returns a line for each version that does not fit, or module that fails."""
    lines = []
    together = ', '.join(f'{name} {version}' for name, version in good.items())
    if sys.version_info[:2] != (3, 10):
        lines.append(
            f'Python must be 3.10, got {platform.python_version()}; dm-launchpad has '
            'wheels for no later one.'
        )
    for name, version in good.items():
        found = installed(name)
        if found != version:
            lines.append(
                f'{name} must be {version}, got {found or "none"}; these are built for '
                f'each other: {together}.'
            )
    return lines or [line for line in map(_load, good) if line]


def describe(good: Mapping[str, str]) -> str:
    """Returns the versions in one line."""
    parts = [f'{name} {installed(name)}' for name in ('repertory', *good)]
    return f'Python {platform.python_version()}, {", ".join(parts)}'


def _load(package: str) -> str:
    """Returns what is wrong with `package`; a broken one can end the interpreter."""
    module = _MODULES[package]
    # Reverb and Courier need TensorFlow's library in the process.
    code = f'import tensorflow, {module}'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    if done.returncode == 0:
        return ''
    last = (done.stderr.strip().splitlines() or ['no message'])[-1]
    return f'{package} {installed(package)} does not load: {last}'
