"""Keeps what was measured, with what it was measured with, and shows it."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from repertory.components import allocator

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / 'benchmarks' / 'results'
_PACKAGES = ('tensorflow', 'dm-reverb', 'dm-sonnet', 'numpy', 'torch')


def write(
    name: str, seed: int, values: dict[str, Any], folder: pathlib.Path = RESULTS
) -> pathlib.Path:
    """Writes FOLDER/NAME.json: the values, and what they were measured with."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f'{name}.json'
    # Not always the name of the results.
    module = f'benchmarks.{pathlib.Path(sys.argv[0]).stem}'.replace('.__main__', '')
    record = {
        'command': ' '.join(['python', '-m', module, *sys.argv[1:]]),
        'commit': _git('rev-parse', 'HEAD'),
        'uncommitted_changes': bool(
            # Results that the benchmarks before have written do not count.
            _git('status', '--porcelain', '-uno', '--', ':/', f':(exclude){RESULTS}')
        ),
        'date': time.strftime('%Y-%m-%d', time.gmtime()),
        'seed': seed,
        'hardware': hardware(),
        'allocator': own_allocator(),
        **values,
    }
    path.write_text(json.dumps(record, indent=1) + '\n')
    return path


def hardware() -> dict[str, Any]:
    """Returns processor, cores, memory in GiB, and how busy the machine was."""
    processor = platform.processor()
    for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            processor = line.split(':', 1)[1].strip()
            break
    pages = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    return {
        'processor': processor,
        'cores': len(os.sched_getaffinity(0)),
        'memory_gib': round(pages / 2**30, 1),
        'load_average_1_min': round(os.getloadavg()[0], 2),
        'python': platform.python_version(),
    }


def peer_variables(as_ours: bool) -> dict[str, str]:
    """Returns the variables of a peer's processes: for our allocator, or for none."""
    return {allocator.VARIABLE: _own_preloaded() if as_ours else ''}


def _own_preloaded() -> str:
    return {**os.environ, **allocator.variables()}.get(allocator.VARIABLE, '')


def own_allocator() -> str:
    """Returns the file of the allocator that our processes have, or `libc`."""
    names = [pathlib.Path(path).name for path in re.split('[ :]', _own_preloaded())]
    return next((name for name in names if allocator.is_one(name)), 'libc')


def versions(python: str) -> dict[str, str]:
    """Returns the versions of what counts, in the environment of a Python."""
    script = (
        'import json, platform\n'
        'from importlib import metadata\n'
        'found = {"python": platform.python_version()}\n'
        f'for name in {_PACKAGES}:\n'
        '    try:\n'
        '        found[name] = metadata.version(name)\n'
        '    except metadata.PackageNotFoundError:\n'
        '        pass\n'
        'print(json.dumps(found))'
    )
    done = subprocess.run(
        [python, '-c', script], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def bounded(value: float, limit: float | None) -> str:
    """Returns a value as text; `>LIMIT` where a run was ended before it was done."""
    if limit is not None and value >= limit:
        return f'>{limit:g}'
    return f'{value:.4g}'


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns Markdown of what `compare` returned, or of single measurements.

    A ratio has `<` or `>` before it where a limit ended some of its runs, `?` where
    that was so on both sides and it bounds nothing.
    """
    lines = [
        '| benchmark | unit | ours | the other | ratio (from ... to) |',
        '|---|---|---|---|---|',
    ]
    for row in rows:
        limit = row.get('limit')
        ours, other, ratio = bounded(row['median_first'], limit), '', ''
        if 'median_second' in row:
            other = f'{bounded(row["median_second"], limit)} ({row["second"]})'
            first, second = row.get('ended_by_limit', (0, 0))
            bound = '?' if first and second else '>' * bool(first) + '<' * bool(second)
            ends = f'{row["min_ratio"]:.3g} ... {row["max_ratio"]:.3g}'
            ratio = f'{bound}{row["median_ratio"]:.3g} ({ends})'
        lines.append(f'| {row["name"]} | {row["unit"]} | {ours} | {other} | {ratio} |')
    return '\n'.join(lines)


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ['git', *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
