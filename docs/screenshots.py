"""Makes docs/pictures/live_view.svg and learning_curve.png from a real run.

python docs/screenshots.py
"""

from __future__ import annotations

import io
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import rich.console

from repertory.launch import display, progress, run_folder

FOLDER = pathlib.Path(__file__).parent / 'pictures'
_COMMAND = 'train apex-dqn --env catch --num-actors 2 --max-actor-steps 20000'
# Rich's own format names a font of another site.
_FORMAT = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{ font: {char_height}px monospace; }} {styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}</defs>{chrome}
<g transform="translate({terminal_x}, {terminal_y})"
 clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def main() -> None:
    """Runs the command, and keeps its view at half of its steps."""
    with tempfile.TemporaryDirectory() as name:
        folder = run_folder.RunFolder(pathlib.Path(name) / 'catch')
        command = [sys.executable, '-m', 'repertory', *_COMMAND.split()]
        command += ['--run-dir', str(folder.path)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
            status = progress.read(folder.status)
            while run.poll() is None and not _half_way(status):
                time.sleep(0.5)
                status = progress.read(folder.status)
        if run.returncode:
            raise SystemExit(f'the run ended with code {run.returncode}')
        console = rich.console.Console(width=80, record=True, file=io.StringIO())
        console.print(f'$ repertory {_COMMAND}', highlight=False)
        console.print(display.make_table(status, f'{folder.path.name} (processes)'))
        FOLDER.mkdir(exist_ok=True)
        svg = console.export_svg(title='repertory', code_format=_FORMAT)
        (FOLDER / 'live_view.svg').write_text(svg)
        shutil.copy(folder.learning_curve, FOLDER / 'learning_curve.png')


def _half_way(status: dict) -> bool:
    return bool(status) and status['counts'].get('actor_steps', 0) >= 10_000


if __name__ == '__main__':
    main()
