"""What `python -m benchmarks` refuses, and how it ends."""

import os
import signal
import subprocess
import sys

import pytest

from benchmarks import __main__ as main
from benchmarks import environment, harness, records


@pytest.mark.parametrize(
    ('options', 'said'),
    [
        ('--pairs 0', '--pairs: must be finite and >= 1, got 0.'),
        ('--seconds nan', '--seconds: must be finite and >= 0.1, got nan.'),
        ('--seconds inf', '--seconds: must be finite and >= 0.1, got inf.'),
        ('--seconds 0', '--seconds: must be finite and >= 0.1, got 0.'),
        ('--warm-up-seconds -5', '--warm-up-seconds: must be finite and >= 0, got -5.'),
        ('--limit-seconds 0', '--limit-seconds: must be finite and >= 1, got 0.'),
        ('--lanes 0', '--lanes: must be finite and >= 1, got 0.'),
        ('--units 0', '--units: must be finite and >= 1, got 0.'),
        ('--items 0', '--items: must be finite and >= 1, got 0.'),
        ('--seed -1', '--seed: must be finite and >= 0, got -1.'),
        (f'--results {__file__}', '--results: must be a folder, got '),
    ],
)
def test_what_cannot_be_measured_is_refused(options, said, capsys):
    with pytest.raises(SystemExit):
        main.parse(['actor', *options.split()])
    assert said in capsys.readouterr().err


def test_what_is_asked_for_wins_over_quick(tmp_path):
    args = main.parse(['--quick', '--seconds', '3', '--results', str(tmp_path)])
    assert (args.pairs, args.seconds, args.results) == (1, 3.0, tmp_path)
    assert main.parse(['--quick', '--limit-seconds', '60']).limit_seconds == 60
    assert main.parse([]).limit_seconds == 180


@pytest.mark.parametrize('tasks', [['catch'], ['cartpole'], ['catch', 'cartpole']])
def test_environments_are_those_that_are_asked_for(monkeypatch, tasks):
    monkeypatch.setattr(harness, 'compare', lambda args, name, *_: name)
    found = environment.run(main.parse(['environment', '--task', *tasks]))
    names = {'catch': 'environment_catch', 'cartpole': 'environment_cartpole_swingup'}
    assert found == [names[task] for task in tasks]


def test_a_peer_that_cannot_be_made_is_told_by_the_last_line(tmp_path, monkeypatch):
    folder = tmp_path / 'benchmarks' / 'peers' / 'acme'
    folder.mkdir(parents=True)
    (folder / 'setup_peer.sh').write_text('echo first; echo no index >&2; exit 1\n')
    monkeypatch.setattr(records, 'ROOT', tmp_path)
    with pytest.raises(RuntimeError, match='acme 0.4.0 could not be made by .*: no in'):
        harness.peer_python('acme')


@pytest.mark.parametrize(
    ('error', 'code', 'said'),
    [
        (KeyboardInterrupt(), 130, 'interrupted; '),
        (RuntimeError('acme failed'), 1, 'benchmarks: acme failed\n'),
    ],
)
def test_an_end_before_its_time_is_a_line(error, code, said):
    text = (
        'from benchmarks import __main__ as main, environment\n'
        f'def fail(args): raise {error!r}\n'
        'environment.run = fail\nmain.main()'
    )
    command = [sys.executable, '-c', text, 'environment']
    done = subprocess.run(command, cwd=records.ROOT, capture_output=True, text=True)
    assert done.returncode == code and done.stderr.startswith(said)
    assert done.stderr.count('\n') == 1


def test_a_side_dies_with_who_runs_it():
    child = 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'
    text = (
        'import sys; from benchmarks import harness\n'
        f'side = harness.Side(name="x", command=[sys.executable, "-c", {child!r}])\n'
        'import subprocess; run = subprocess.run\n'
        'harness.subprocess.run = lambda *a, **k: run('
        '*a, **{n: v for n, v in k.items() if n not in ("capture_output", "text")})\n'
        'side.run("act", [], 60)'
    )
    with subprocess.Popen(
        [sys.executable, '-c', text], cwd=records.ROOT, stdout=subprocess.PIPE
    ) as parent:
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        assert parent.stdout.readline() == b''  # Once the child has closed it as well.
    with pytest.raises(ProcessLookupError):
        for _ in range(1_000):  # It may not have been reaped yet.
            os.kill(pid, 0)
            subprocess.run(['sleep', '0.01'], check=True)
