"""Runs the commands of README.md and docs/ that are marked as runnable.

python docs/run_commands.py [PAGE ...]

A block below the comment `run` is run, by bash or by Python as its language says; one
below `file: NAME` is written to that file. The pages share one new folder, and are
taken in the order of the site.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
_BLOCK = re.compile(
    r'^<!-- (run|file: (\S+)) -->\n```(\w+)\n(.*?)^```$', re.MULTILINE | re.DOTALL
)
_SECONDS = 300


def pages() -> list[pathlib.Path]:
    """Returns the README and the site's pages, in order."""
    nav = yaml.safe_load((ROOT / 'mkdocs.yml').read_text())['nav']
    names = [name for entry in nav for name in entry.values()]
    return [ROOT / 'README.md', *(ROOT / 'docs' / name for name in names)]


def blocks(page: pathlib.Path) -> list[tuple[str, str, str]]:
    """Returns of each marked block the file's name or '', the language and the text."""
    return [found[1:] for found in _BLOCK.findall(page.read_text())]


def run(language: str, text: str, folder: pathlib.Path) -> None:
    """Runs one block in `folder`; raises CalledProcessError if it fails."""
    binaries = pathlib.Path(sys.executable).parent
    environment = {
        **os.environ,
        'PATH': f'{binaries}{os.pathsep}{os.environ["PATH"]}',
        'SDL_VIDEODRIVER': 'dummy',  # For films without a display.
    }
    if language == 'python':
        script = folder / 'block.py'
        script.write_text(text)
        command = [sys.executable, str(script)]
    else:
        command = ['bash', '-euo', 'pipefail', '-c', text]
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=_SECONDS)


def main() -> int:
    chosen = [pathlib.Path(page).resolve() for page in sys.argv[1:]] or pages()
    number = 0
    with tempfile.TemporaryDirectory(prefix='repertory_docs_') as name:
        folder = pathlib.Path(name)
        for page in chosen:
            for file, language, text in blocks(page):
                if file:
                    (folder / file).write_text(text)
                    continue
                print(f'== {page.name}\n{text}', flush=True)
                begin = time.monotonic()
                run(language, text, folder)
                number += 1
                print(f'== {time.monotonic() - begin:.0f} s', flush=True)
    print(f'{number} blocks of {len(chosen)} pages ran.')
    return 0 if number else 1


if __name__ == '__main__':
    sys.exit(main())
