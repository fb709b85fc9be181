import os
import subprocess
import sys

from repertory.launch import quiet

_CODE = """
import ctypes, logging, os, sys, warnings
from repertory.launch import quiet
logging.basicConfig(level=logging.INFO)  # Its handler holds the stream of now.
with quiet.native_errors_to(sys.argv[1]):
    os.write(2, b'chatter\\n')
    warnings.warn('a warning')
    logging.getLogger('x').info('a log')
    print('printed', file=sys.stderr)
os.write(2, b'native after\\n')
logging.getLogger('x').info('log after')
"""


def test_what_libraries_write_goes_to_a_file_and_what_python_writes_is_shown(tmp_path):
    path = tmp_path / 'logs' / 'nodes.log'
    done = subprocess.run(
        [sys.executable, '-c', _CODE, path], capture_output=True, text=True, check=True
    )
    assert path.read_text() == 'chatter\n'
    for text in 'a warning', 'a log', 'printed', 'native after', 'log after':
        assert text in done.stderr
    assert 'chatter' not in done.stderr


def test_threads_that_overlap_share_a_file_until_the_last_is_out(tmp_path, capfd):
    first, second = tmp_path / 'first.log', tmp_path / 'second.log'
    outer, inner = quiet.native_errors_to(first), quiet.native_errors_to(second)
    outer.__enter__()
    inner.__enter__()
    os.write(2, b'one ')
    outer.__exit__(None, None, None)  # Not in order: threads end as they like.
    os.write(2, b'two')
    inner.__exit__(None, None, None)
    os.write(2, b'after')
    assert first.read_text() == 'one two'
    assert not second.exists()
    assert capfd.readouterr().err == 'after'
