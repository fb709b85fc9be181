import csv
import importlib.util
import math
import os
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest

from repertory.components import core, loggers
from repertory.components.loggers import values


class _Recorder(core.Logger):
    def __init__(self, fails_to_close=False):
        self.rows, self.closed = [], False
        self._fails_to_close = fails_to_close

    def write(self, values):
        self.rows.append(dict(values))

    def close(self):
        self.closed = True
        if self._fails_to_close:
            raise OSError('cannot close')


def _read(path):
    with open(path, newline='') as file:
        return list(csv.DictReader(file))


def _read_events(folder):
    from tensorboard.compat.proto import event_pb2

    events = []
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack('<Q', content[:8])
            events.append(event_pb2.Event.FromString(content[12 : 12 + length]))
            content = content[16 + length :]
    return events


def test_flatten_joins_names_and_takes_numpy_scalars():
    row = values.flatten(
        {'a': {'b': np.float32(0.1), 'c': {'d': np.int64(2)}}, 'e': np.array([1.5])}
        | {'f': True, 'g': 'text', 'h': np.float64(0.25), 'i': np.bool_(False)}
    )
    assert row == {
        'a/b': 0.1,
        'a/c/d': 2,
        'e': 1.5,
        'f': True,
        'g': 'text',
        'h': 0.25,
        'i': False,
    }
    assert all(type(value) in (bool, int, float, str) for value in row.values())


@pytest.mark.parametrize('value', [np.zeros(3), None, [1, 2], b'bytes'])
def test_flatten_names_what_is_no_scalar(value):
    with pytest.raises(TypeError, match='^loss must be a number or a string, got '):
        values.flatten({'loss': value})


def test_csv_keeps_columns_that_come_late(tmp_path):
    path = tmp_path / 'new' / 'rows.csv'
    with loggers.CSVLogger(path) as logger:
        for row in ({'a': 1}, {'a': 2, 'b': 3}, {'b': 4}):
            logger.write(row)
    assert _read(path) == [
        {'a': '1', 'b': ''},
        {'a': '2', 'b': '3'},
        {'a': '', 'b': '4'},
    ]
    assert list(path.parent.iterdir()) == [path]


def test_csv_continues_a_file_and_drops_a_line_cut_short(tmp_path):
    path = tmp_path / 'rows.csv'
    with loggers.CSVLogger(path) as logger:
        logger.write({'a': 1, 'b': 2})
    with open(path, 'a') as file:
        file.write('7,8')
    with loggers.CSVLogger(path) as logger:
        logger.write({'b': 4, 'c': 5})
    assert _read(path) == [
        {'a': '1', 'b': '2', 'c': ''},
        {'a': '', 'b': '4', 'c': '5'},
    ]


@pytest.mark.parametrize('content', ['', 'a,b'])
def test_csv_begins_anew_where_no_header_was_finished(tmp_path, content):
    path = tmp_path / 'rows.csv'
    path.write_text(content)
    with loggers.CSVLogger(path) as logger:
        logger.write({'c': 1})
    assert _read(path) == [{'c': '1'}]


def test_csv_survives_a_crash_while_a_column_is_added(tmp_path, monkeypatch):
    path = tmp_path / 'rows.csv'
    logger = loggers.CSVLogger(path)
    logger.write({'a': 1})

    def fail(*unused):
        raise OSError('killed')

    monkeypatch.setattr(os, 'replace', fail)
    with pytest.raises(OSError, match='killed'):
        logger.write({'b': 2})
    monkeypatch.undo()
    assert _read(path) == [{'a': '1'}]
    with loggers.CSVLogger(path) as logger:
        logger.write({'b': 2})
    assert _read(path) == [{'a': '1', 'b': ''}, {'a': '', 'b': '2'}]


def test_csv_writes_non_finite_values_and_text_as_they_are(tmp_path):
    path = tmp_path / 'rows.csv'
    with loggers.CSVLogger(path) as logger:
        logger.write({'a': math.nan, 'b': -np.inf, 'c': 'x, "y"\nz'})
    assert _read(path) == [{'a': 'nan', 'b': '-inf', 'c': 'x, "y" z'}]


def test_csv_and_tensorboard_rows_survive_sigkill(tmp_path):
    script = (
        'import os, signal, sys\n'
        'from repertory.components import loggers\n'
        "logger = loggers.Tee([loggers.CSVLogger(sys.argv[1] + '/rows.csv'),\n"
        "    loggers.TensorBoardLogger(sys.argv[1] + '/events', 'step')])\n"
        "logger.write({'step': 3, 'loss': 0.5})\n"
        "assert 'tensorflow' not in sys.modules\n"
        'os.kill(os.getpid(), signal.SIGKILL)\n'
    )
    process = subprocess.run([sys.executable, '-c', script, str(tmp_path)], timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert _read(tmp_path / 'rows.csv') == [{'step': '3', 'loss': '0.5'}]
    event = _read_events(tmp_path / 'events')[-1]
    assert event.step == 3
    assert [(value.tag, value.simple_value) for value in event.summary.value] == [
        ('loss', 0.5)
    ]


def test_tensorboard_reads_the_events(tmp_path):
    event_accumulator = pytest.importorskip(
        'tensorboard.backend.event_processing.event_accumulator'
    )
    with loggers.TensorBoardLogger(tmp_path, 'steps') as logger:
        logger.write({'loss': 3.0})
        logger.write({'steps': 1, 'loss': 2.0, 'text': 'left out'})
        logger.write({'steps': 2, 'loss': math.nan, 'late': np.int64(5)})
    events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert events.Tags()['scalars'] == ['loss', 'late']
    loss = events.Scalars('loss')
    assert [event.step for event in loss] == [0, 1, 2]
    assert loss[1].value == 2.0
    assert math.isnan(loss[2].value)
    assert events.Scalars('late')[0].value == 5


def test_tensorboard_shows_texts_histograms_and_films(tmp_path):
    event_accumulator = pytest.importorskip(
        'tensorboard.backend.event_processing.event_accumulator'
    )
    with loggers.TensorBoardLogger(tmp_path) as logger:
        logger.write_text('config', '| a |')
        logger.write_histogram('weights', np.array([[0.0, 1.0], [1.0, 3.0]]), step=4)
        logger.write_gif('film', b'GIF89a', (10, 20), step=5)
    events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    [text] = events.Tensors('config')
    assert text.tensor_proto.string_val == [b'| a |']
    plugin = events.SummaryMetadata('config').plugin_data.plugin_name
    assert plugin == 'text'
    [histogram] = events.Tensors('weights')
    rows = np.frombuffer(histogram.tensor_proto.tensor_content).reshape(-1, 3)
    assert histogram.step == 4
    assert rows[:, 2].sum() == 4 and rows[0, 2] == 1 and rows[-1, 2] == 1
    assert (rows[0, 0], rows[-1, 1]) == (0.0, 3.0)
    [film] = events.Images('film')
    assert (film.step, film.height, film.width) == (5, 10, 20)
    assert film.encoded_image_string == b'GIF89a'


def test_terminal_prints_one_line_a_row():
    lines = []
    with loggers.TerminalLogger('learner', lines.append) as logger:
        logger.write({'steps': 12345, 'loss': 0.123456, 'big': 2e6, 'nan': math.nan})
    assert lines == ['[learner] steps=12,345 loss=0.1235 big=2,000,000 nan=nan']


@pytest.mark.skipif(importlib.util.find_spec('wandb'), reason='wandb is installed')
def test_wandb_says_what_to_install():
    with pytest.raises(ImportError, match=r"pip install 'repertory\[wandb\]'"):
        loggers.WandBLogger()


def test_wandb_gets_the_rows_and_the_step(monkeypatch):
    class _Run:
        logged, metrics, finished = [], [], False

        def define_metric(self, name, step_metric):
            self.metrics.append((name, step_metric))

        def log(self, row):
            self.logged.append(row)

        def finish(self):
            self.finished = True

    run = _Run()
    fake = type(sys)('wandb')
    fake.init = lambda **options: setattr(run, 'options', options) or run
    monkeypatch.setitem(sys.modules, 'wandb', fake)
    with loggers.WandBLogger('p', 'steps', group='g') as logger:
        logger.write({'steps': 1, 'loss': 0.5})
    assert run.options == {'project': 'p', 'group': 'g'}
    assert run.metrics == [('*', 'steps')]
    assert run.logged == [{'steps': 1, 'loss': 0.5}]
    assert run.finished


def test_tee_writes_to_all_and_closes_all():
    good, bad, last = _Recorder(), _Recorder(fails_to_close=True), _Recorder()
    tee = loggers.Tee([good, bad, last])
    tee.write({'a': 1})
    assert good.rows == bad.rows == last.rows == [{'a': 1}]
    with pytest.raises(OSError, match='cannot close'):
        tee.close()
    assert good.closed and bad.closed and last.closed


def test_throttle_writes_one_row_a_period_and_the_last(tmp_path):
    recorder, time = _Recorder(), [0.0]
    with loggers.Throttle(recorder, 10.0, clock=lambda: time[0]) as logger:
        for now in (0.0, 1.0, 9.0, 10.0, 11.0, 12.0):
            time[0] = now
            logger.write({'now': now})
    logger.close()
    assert [row['now'] for row in recorder.rows] == [0.0, 10.0, 12.0]
    assert recorder.closed
    with pytest.raises(ValueError, match='period_seconds must be > 0, got 0'):
        loggers.Throttle(recorder, 0)
