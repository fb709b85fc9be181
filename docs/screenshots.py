"""Makes the pictures of a real run in docs/pictures/.

python docs/screenshots.py

`learning_curve.png`; and, by Chromium without a display, `live_view.png` of the
terminal and `tensorboard.png` of TensorBoard's page.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import rich.console

from repertory.launch import display, progress, run_folder

FOLDER = pathlib.Path(__file__).parent / 'pictures'
BROWSERS = 'chromium', 'chromium-browser', 'google-chrome'
_COMMAND = 'train apex-dqn --env catch --num-actors 2 --max-actor-steps 20000'
_SCALARS = '#scalars&tagFilter=^(episode_return|loss|policy_lag)%24&_smoothingWeight=0'
_SERVER_SECONDS, _BROWSER_SECONDS = 60, 120
_PAGE_MS = 20_000  # Of the page's own time, for its requests and animations.
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
        scratch = pathlib.Path(name)
        folder = run_folder.RunFolder(scratch / 'catch')
        command = [sys.executable, '-m', 'repertory', *_COMMAND.split()]
        command += ['--run-dir', str(folder.path)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
            status = progress.read(folder.status)
            while run.poll() is None and not _half_way(status):
                time.sleep(0.5)
                status = progress.read(folder.status)
        if run.returncode:
            raise SystemExit(f'the run ended with code {run.returncode}')
        FOLDER.mkdir(exist_ok=True)
        shutil.copy(folder.learning_curve, FOLDER / 'learning_curve.png')
        browser = find_browser()
        if browser is None:
            print(f'skipped live_view.png, tensorboard.png: none of {BROWSERS} is here')
            return
        console = rich.console.Console(width=80, record=True, file=io.StringIO())
        console.print(f'$ repertory {_COMMAND}', highlight=False)
        console.print(display.make_table(status, f'{folder.path.name} (processes)'))
        svg = console.export_svg(title='repertory', code_format=_FORMAT)
        view = scratch / 'live_view.svg'
        view.write_text(svg)
        size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
        width, height = (round(float(number)) for number in size.groups())
        take(browser, view.as_uri(), FOLDER / 'live_view.png', width, height)
        with serve(folder.path) as address:
            page = FOLDER / 'tensorboard.png'
            take(browser, f'{address}{_SCALARS}', page, 1280, 800)


def _half_way(status: dict) -> bool:
    return bool(status) and status['counts'].get('actor_steps', 0) >= 10_000


def find_browser() -> str | None:
    """Returns the path of a Chromium; None where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextlib.contextmanager
def serve(folder: pathlib.Path) -> Iterator[str]:
    """Serves TensorBoard on a free port of this machine; gives the address."""
    command = [sys.executable, '-m', 'tensorboard.main', '--logdir', folder.name]
    log = folder / 'tensorboard.log'
    with open(log, 'w') as file:
        server = subprocess.Popen(
            [*command, '--host', '127.0.0.1', '--port', '0'],
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=folder.parent,  # The page shows the name.
        )
    try:
        end = time.monotonic() + _SERVER_SECONDS
        while not (found := re.search(r'http://\S+', log.read_text())):
            if server.poll() is not None or time.monotonic() > end:
                raise SystemExit(f'TensorBoard does not serve:\n{log.read_text()}')
            time.sleep(0.2)
        yield found[0]
    finally:
        server.terminate()
        server.wait()


def take(
    browser: str, address: str, path: pathlib.Path, width: int, height: int
) -> None:
    """Writes a PNG of a page, of `width` x `height` pixels."""
    path.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        command = [
            *(browser, '--headless', '--disable-gpu', '--no-first-run'),
            *('--disable-background-networking', '--disable-component-update'),
            *('--disable-sync', '--disable-quic', '--hide-scrollbars'),
            f'--user-data-dir={profile}',
            f'--window-size={width},{height}',
            f'--virtual-time-budget={_PAGE_MS}',
            f'--screenshot={path}',
        ]
        if os.geteuid() == 0:  # Its sandbox runs for no root.
            command.append('--no-sandbox')
        done = subprocess.run(
            [*command, address],
            capture_output=True,
            text=True,
            timeout=_BROWSER_SECONDS,
        )
    if not path.exists():
        raise SystemExit(f'{browser} took no picture of {address}:\n{done.stderr}')


if __name__ == '__main__':
    main()
