"""Finds warnings in the logs of a run's nodes as they are written."""

from __future__ import annotations

import os
import pathlib
import re

# As `entry.main` and the command have logs formatted.
FORMAT = '%(asctime)s %(levelname)s %(name)s: %(message)s'
_WARNING = re.compile(rb'^\S+ \S+ (?:WARNING|ERROR) (repertory\.\S+): (.*)$')
_WAITS = 'repertory.launch.control'  # Are part of a run's status.


class LogWatcher:
    """Reads what is appended to the logs in a folder, from now on."""

    def __init__(self, log_dir: str | os.PathLike):
        self._log_dir = pathlib.Path(log_dir)
        self._offsets = {path: path.stat().st_size for path in self._paths()}

    def new_warnings(self) -> list[str]:
        """Returns the warnings of our own since the last call, as 'node: text'."""
        found = []
        for path in self._paths():
            with open(path, 'rb') as file:
                file.seek(self._offsets.get(path, 0))
                content = file.read()
            whole = content[: content.rfind(b'\n') + 1]  # The last line may grow.
            self._offsets[path] = self._offsets.get(path, 0) + len(whole)
            for line in whole.splitlines():
                match = _WARNING.match(line)
                if match and match[1].decode() != _WAITS:
                    node = '' if path.stem == 'launcher' else f'{path.stem}: '
                    found.append(node + match[2].decode(errors='replace'))
        return found

    def _paths(self) -> list[pathlib.Path]:
        return sorted(self._log_dir.glob('*.log'))
