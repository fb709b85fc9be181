"""A script that is run, and what another process finds of it."""

import json
import subprocess
import sys

import pytest

from repertory.launch import scripts

_SCRIPT = """
import dataclasses, json, sys
from repertory.launch import records, run_folder

@dataclasses.dataclass(frozen=True)
class Config:
    size: int = 3

def make(seed):
    return seed + 1

if __name__ == '__main__':
    config = {'agent': Config(5), 'environment': make}
    assert records.decode(records.encode(config)) == config  # Its own, not a copy.
    assert run_folder.agent_name(Config()) == 'my-script'
    print(json.dumps(records.encode(config)))
"""
_READ = """
import json, sys
from repertory.launch import records
record = json.loads(sys.stdin.read())
decoded = records.decode(record)
assert decoded['agent'].size == 5 and decoded['environment'](1) == 2
assert records.encode(decoded) == record
"""


def test_what_a_script_defines_is_found_by_another_process(tmp_path):
    script = tmp_path / 'my-script.py'
    script.write_text(_SCRIPT)
    command = [sys.executable, script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    assert record['environment'] == {'import': f'{script}:make'}
    subprocess.run(
        [sys.executable, '-c', _READ], input=done.stdout, text=True, check=True
    )


def test_a_script_that_is_only_read_starts_no_run(tmp_path):
    script = tmp_path / 'unguarded.py'
    script.write_text(
        'from repertory.launch import scripts\nscripts.refuse_to_run()\nx = 1\n'
    )
    with pytest.raises(RuntimeError, match='must start runs below `if __name__'):
        scripts.find(f'{script}:x')
    scripts.refuse_to_run()


@pytest.mark.parametrize(
    ('path', 'message'),
    [
        ('make', "'make' is not of the form module:name"),
        ('__main__:make', 'make was defined in an interactive session'),
        ('/nowhere.py:make', 'there is no script /nowhere.py'),
        ('nowhere:make', "No module named 'nowhere'"),
    ],
)
def test_what_cannot_be_found_is_said(path, message):
    with pytest.raises(ImportError, match=message):
        scripts.find(path)
