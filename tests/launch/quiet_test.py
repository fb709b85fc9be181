import subprocess
import sys

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
