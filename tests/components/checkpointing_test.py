import errno
import logging
import os
import threading

import numpy as np
import pytest

from repertory.components import checkpointing

_ARRAYS = {
    'learner/online/w:0': np.arange(6, dtype=np.float32).reshape(2, 3),
    'steps': np.int64(7),
    'empty': np.zeros((0, 4), np.uint8),
    'file': np.array([True, False]),
    'transposed': np.arange(6.0).reshape(2, 3).T,
}


def _numbered(value):
    return {'w': np.full(1000, value, np.float32)}


def test_load_returns_what_was_saved(tmp_path):
    path = checkpointing.save(tmp_path / 'new', 12, _ARRAYS, {'actor_steps': 3})
    checkpoint = checkpointing.load(path)
    assert checkpoint.step == 12
    assert checkpoint.metadata == {'actor_steps': 3}
    assert list(checkpoint.arrays) == list(_ARRAYS)
    for name, array in _ARRAYS.items():
        assert checkpoint.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(checkpoint.arrays[name], array)


def test_latest_is_none_where_there_is_no_checkpoint(tmp_path):
    assert checkpointing.latest(tmp_path) is None
    assert checkpointing.latest(tmp_path / 'absent') is None


def test_save_keeps_the_newest_by_step_not_by_name(tmp_path):
    for step in (9, 10**13, 100):
        checkpointing.save(tmp_path, step, _numbered(step), keep=2)
    assert len(list(tmp_path.iterdir())) == 2
    path = checkpointing.latest(tmp_path)
    assert checkpointing.load(path).step == 10**13


def test_an_equal_step_is_replaced(tmp_path):
    checkpointing.save(tmp_path, 1, _numbered(1))
    path = checkpointing.save(tmp_path, 1, _numbered(2))
    assert checkpointing.load(path).arrays['w'][0] == 2


@pytest.mark.parametrize('damage', ['truncate', 'empty', 'flip'])
def test_latest_skips_a_damaged_checkpoint_and_names_it(tmp_path, damage, caplog):
    checkpointing.save(tmp_path, 1, _numbered(1), keep=2)
    path = checkpointing.save(tmp_path, 2, _numbered(2), keep=2)
    content = bytearray(path.read_bytes())
    if damage == 'flip':
        content[len(content) // 2] ^= 1
    path.write_bytes({'truncate': content[:-50], 'empty': b''}.get(damage, content))
    with caplog.at_level(logging.WARNING):
        found = checkpointing.latest(tmp_path)
    assert checkpointing.load(found).arrays['w'][0] == 1
    assert [path.name in record.getMessage() for record in caplog.records] == [True]
    with pytest.raises(ValueError, match=f'{path.name} must be a whole .*delete it'):
        checkpointing.load(path)


@pytest.mark.parametrize('stage', ['replace', 'fsync'])
def test_a_save_cut_short_leaves_the_checkpoint_before(tmp_path, stage, monkeypatch):
    checkpointing.save(tmp_path, 1, _numbered(1))

    def fail(*unused):
        raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(os, stage, fail)
    with pytest.raises(OSError, match='No space left'):
        checkpointing.save(tmp_path, 2, _numbered(2))
    monkeypatch.undo()
    assert checkpointing.load(checkpointing.latest(tmp_path)).step == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_the_leftover_of_a_killed_process_is_never_loaded(tmp_path):
    path = checkpointing.save(tmp_path, 1, _numbered(1))
    (tmp_path / 'partial.tmp').write_bytes(path.read_bytes()[:100])
    assert checkpointing.latest(tmp_path) == path
    path = checkpointing.save(tmp_path, 2, _numbered(2))
    assert list(tmp_path.iterdir()) == [path]


def test_save_refuses_what_it_cannot_keep(tmp_path):
    with pytest.raises(TypeError, match=r"arrays\['bad'\] must hold numbers"):
        checkpointing.save(tmp_path, 1, {'bad': np.array([object()])})
    with pytest.raises(ValueError, match='keep must be >= 1, got 0'):
        checkpointing.save(tmp_path, 1, {}, keep=0)
    with pytest.raises(ValueError, match='step must be >= 0, got -1'):
        checkpointing.save(tmp_path, -1, {})


def test_load_names_the_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match='nothing.ckpt, which is no file'):
        checkpointing.load(tmp_path / 'nothing.ckpt')


def test_checkpointer_writes_in_the_background_and_close_waits(tmp_path, monkeypatch):
    started, release = threading.Event(), threading.Event()
    real_save = checkpointing.save

    def slow_save(*args):
        started.set()
        assert release.wait(10)
        real_save(*args)

    monkeypatch.setattr(checkpointing, 'save', slow_save)
    checkpointer = checkpointing.Checkpointer(tmp_path, 1e-9)
    assert checkpointer.due()
    checkpointer.save(1, _numbered(1))
    assert started.wait(10)
    assert not checkpointer.due()
    assert checkpointing.latest(tmp_path) is None
    release.set()
    checkpointer.close()
    checkpointer.close()
    assert checkpointing.load(checkpointing.latest(tmp_path)).step == 1


def test_checkpointer_is_not_due_before_its_period(tmp_path):
    with checkpointing.Checkpointer(tmp_path, 3600) as checkpointer:
        assert not checkpointer.due()


def test_a_full_disk_costs_one_warning_and_not_the_run(tmp_path, monkeypatch, caplog):
    def fail(*unused):
        raise OSError(errno.ENOSPC, 'No space left on device')

    with checkpointing.Checkpointer(tmp_path, 60) as checkpointer:
        checkpointer.save(1, _numbered(1))
        checkpointer.wait()
        with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
            patch.setattr(os, 'fsync', fail)
            checkpointer.save(2, _numbered(2))
            checkpointer.wait()
        assert len(caplog.records) == 1
        assert 'No space left on device' in caplog.records[0].getMessage()
        assert checkpointer.error.errno == errno.ENOSPC
        assert checkpointing.load(checkpointing.latest(tmp_path)).step == 1
        checkpointer.save(3, _numbered(3))
        checkpointer.wait()
        assert checkpointer.error is None
    assert checkpointing.load(checkpointing.latest(tmp_path)).step == 3


def test_what_follows_a_checkpoint_may_fail_without_it(tmp_path, caplog):
    def fail():
        raise RuntimeError('table too large')

    with checkpointing.Checkpointer(tmp_path, 60, keep=2) as checkpointer:
        done = []
        checkpointer.save(1, _numbered(1), then=lambda: done.append(1))
        checkpointer.wait()
        assert (done, checkpointer.error) == ([1], None)
        checkpointer.save(2, _numbered(2), None, fail)
    assert [record.getMessage() for record in caplog.records] == [
        'What belongs to the checkpoint of step 2 failed (table too large); what was '
        'saved before stays, and the next is due in 60 s.'
    ]
    assert checkpointing.load(checkpointing.latest(tmp_path)).step == 2


def test_a_fault_that_no_disk_causes_reaches_the_caller(tmp_path):
    checkpointer = checkpointing.Checkpointer(tmp_path, 60)
    checkpointer.save(1, {'bad': np.array([object()])})
    with pytest.raises(TypeError, match='must hold numbers'):
        checkpointer.close()


def test_checkpointer_refuses_bad_settings(tmp_path):
    with pytest.raises(ValueError, match='period_seconds must be > 0, got 0'):
        checkpointing.Checkpointer(tmp_path, 0)
    with pytest.raises(ValueError, match='keep must be >= 1, got 0'):
        checkpointing.Checkpointer(tmp_path, 1, keep=0)


def test_a_damaged_checkpoint_costs_no_whole_one_its_place(tmp_path):
    arrays = {'a': np.ones(3)}
    checkpointing.save(tmp_path, 600, arrays, keep=2)
    checkpointing.save(tmp_path, 860, arrays, keep=2)
    damaged = tmp_path / 'step_000000000860.ckpt'
    damaged.write_bytes(b'x' * 50)
    # A resumed run goes on from 600, so that its next steps are below 860.
    written = checkpointing.save(tmp_path, 700, arrays, keep=2)
    assert checkpointing.latest(tmp_path) == written
    assert (tmp_path / 'step_000000000600.ckpt').exists()
    again = checkpointing.save(tmp_path, 800, arrays, keep=1)
    assert checkpointing.latest(tmp_path) == again
