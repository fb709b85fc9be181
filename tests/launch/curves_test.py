import numpy as np
import pytest

from repertory.components import loggers
from repertory.launch import curves, run_folder


def _write(path, rows):
    with loggers.CSVLogger(path) as logger:
        for row in rows:
            logger.write(row)


def _row(steps, value):
    return {'actor_steps': steps, 'seconds': steps / 10, 'episode_return': value}


def test_read_curve_skips_rows_that_lack_a_value(tmp_path):
    rows = [{'actor_steps': 1}, _row(2, 0.5), {'episode_return': 3}, _row(4, np.nan)]
    _write(tmp_path / 'a.csv', rows)
    x, y = curves.read_curve(tmp_path / 'a.csv')
    np.testing.assert_array_equal(x, [2, 4])
    np.testing.assert_array_equal(y, [0.5, np.nan])


def test_read_curve_leaves_out_what_a_resumed_run_wrote_again(tmp_path):
    steps = [10, 20, 30, 40, 20, 30, 50, 50]
    _write(tmp_path / 'a.csv', [_row(step, i) for i, step in enumerate(steps)])
    x, y = curves.read_curve(tmp_path / 'a.csv')
    np.testing.assert_array_equal(x, [10, 20, 20, 30, 50, 50])
    np.testing.assert_array_equal(y, [0, 1, 4, 5, 6, 7])


def test_read_curve_names_the_missing_column(tmp_path):
    _write(tmp_path / 'a.csv', [{'loss': 1}])
    with pytest.raises(ValueError, match="a column 'actor_steps', got loss"):
        curves.read_curve(tmp_path / 'a.csv')


def test_the_mean_counts_a_curve_only_between_its_ends():
    first = np.array([0.0, 10.0, 20.0]), np.array([0.0, 1.0, 2.0])
    second = np.array([10.0, 20.0, 30.0]), np.array([3.0, 4.0, 9.0])
    points, values = curves.mean([first, second])
    np.testing.assert_array_equal(points, [0, 10, 20, 30])
    np.testing.assert_array_equal(values, [0, 2, 3, 9])


def test_one_curve_is_its_own_mean():
    curve = np.array([0.0, 0.0, 1.0]), np.array([1.0, 2.0, np.nan])
    assert curves.mean([curve]) is curve


def test_evaluations_of_a_run_that_has_none_are_empty(tmp_path):
    folder = run_folder.RunFolder(tmp_path)
    assert [len(values) for values in curves.read_evaluations(folder)] == [0, 0]
    folder.csv.mkdir()
    (folder.csv / 'evaluator.csv').write_text('')
    assert curves.read_curves(folder, 'evaluator') == []
