import subprocess
import sys

import numpy as np
import pytest
from matplotlib import figure as figure_lib
from matplotlib import image
from matplotlib.backends import backend_agg

from repertory.components import loggers
from repertory.launch import plots, run_folder


@pytest.fixture
def figures(monkeypatch):
    """Collects the figures that are saved."""
    saved = []
    real = figure_lib.Figure.savefig

    def savefig(self, *args, **options):
        saved.append(self)
        return real(self, *args, **options)

    monkeypatch.setattr(figure_lib.Figure, 'savefig', savefig)
    return saved


def _write(path, rows):
    with loggers.CSVLogger(path) as logger:
        for row in rows:
            logger.write(row)


def _row(steps, value):
    return {'actor_steps': steps, 'seconds': steps / 10, 'episode_return': value}


def _create(path):
    return run_folder.create(path, {}, agent='apex_dqn', environment='catch', seed=3)


def test_plot_run_draws_actors_and_evaluator(tmp_path, figures):
    folder = _create(tmp_path)
    for actor in range(2):
        rows = [_row(step, step + actor) for step in range(100)]
        _write(folder.csv / f'actor_{actor}.csv', rows)
    _write(folder.csv / 'evaluator.csv', [_row(0, -1), _row(100, 1)])
    _write(folder.csv / 'learner.csv', [{'loss': 1}])
    path = plots.plot_run(tmp_path)
    assert path == folder.learning_curve
    assert image.imread(path).shape[2] == 4
    assert list(tmp_path.glob('*.tmp')) == []
    (figure,) = figures
    assert figure.get_suptitle() == 'apex_dqn on catch, seed 3'
    steps, seconds = figure.axes
    assert steps.get_xlabel() == 'environment steps'
    assert seconds.get_xlabel() == 'wall clock [s]'
    actors, evaluator = steps.get_lines()
    np.testing.assert_array_equal(evaluator.get_xdata(), [0, 100])
    np.testing.assert_array_equal(evaluator.get_ydata(), [-1, 1])
    assert len(actors.get_xdata()) == 60
    # Each mean is over the two actors, of returns x and x + 1.
    error = np.abs(actors.get_ydata() - actors.get_xdata() - 0.5)
    assert error.max() < 0.5
    np.testing.assert_array_equal(seconds.get_lines()[1].get_xdata(), [0, 10])


def test_plot_run_draws_the_mean_of_all_evaluators(tmp_path, figures):
    folder = _create(tmp_path)
    _write(folder.csv / 'evaluator.csv', [_row(0, 0.0), _row(100, 10.0)])
    _write(folder.csv / 'evaluator_1.csv', [_row(50, 7.0), _row(100, 20.0)])
    plots.plot_run(tmp_path)
    (line,) = figures[0].axes[0].get_lines()
    assert line.get_label() == 'mean of 2 evaluators'
    np.testing.assert_array_equal(line.get_xdata(), [0, 50, 100])
    np.testing.assert_array_equal(line.get_ydata(), [0, 6, 15])
    plots.plot_runs([tmp_path], tmp_path / 'x.png')
    assert figures[1].axes[0].get_lines()[0].get_ydata()[-1] == 15


def test_plot_run_takes_a_run_without_evaluator(tmp_path, figures):
    _write(_create(tmp_path).csv / 'actor_0.csv', [_row(1, 2.0)])
    plots.plot_run(tmp_path)
    assert len(figures[0].axes[0].get_lines()) == 1


def test_plot_run_says_that_nothing_was_recorded(tmp_path):
    folder = _create(tmp_path)
    _write(folder.csv / 'evaluator.csv', [{'episodes': 0}])
    with pytest.raises(ValueError, match='must hold the return of an episode to draw'):
        plots.plot_run(tmp_path)
    with pytest.raises(FileNotFoundError, match='must be the folder of a run'):
        plots.plot_run(tmp_path / 'x')


def test_plot_seeds_draws_median_and_range(tmp_path, figures):
    curves = [
        (np.array([0.0, 100.0]), np.array([0.0, 100.0])),
        (np.array([0.0, 50.0, 80.0]), np.array([10.0, 60.0, 90.0])),
        (np.array([0.0, 120.0]), np.array([40.0, 160.0])),
    ]
    plots.plot_seeds(curves, tmp_path / 'new' / 'a.png', 'three seeds', target=70.0)
    (axes,) = figures[0].axes
    median, target = axes.get_lines()
    assert median.get_xdata()[-1] == 80.0
    np.testing.assert_allclose(median.get_ydata(), median.get_xdata() + 10.0)
    np.testing.assert_array_equal(target.get_ydata(), [70.0, 70.0])
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.0, 120.0)
    assert (tmp_path / 'new' / 'a.png').stat().st_size > 1000


@pytest.mark.parametrize('curves', [[], [(np.zeros(0), np.zeros(0))]])
def test_plot_seeds_refuses_curves_without_points(tmp_path, curves):
    with pytest.raises(ValueError, match='curves must hold at least one point each'):
        plots.plot_seeds(curves, tmp_path / 'a.png', 'title')


def test_importing_plots_imports_no_matplotlib():
    script = (
        'import sys, repertory.launch.plots; assert "matplotlib" not in sys.modules'
    )
    subprocess.run([sys.executable, '-c', script], check=True, timeout=60)


def _run_of(path, seed, n_step, returns, agent='apex_dqn'):
    folder = run_folder.create(
        path,
        {'agent': {'n_step': n_step, 'class': 'x'}, 'seed': seed},
        agent=agent,
        environment='catch',
        seed=seed,
    )
    rows = [_row(10 * i, value) for i, value in enumerate(returns)]
    _write(folder.csv / 'evaluator.csv', rows)
    return path


def test_plot_runs_compares_settings_over_their_seeds(tmp_path, figures):
    paths = [
        _run_of(tmp_path / 'a', 0, 1, [0.0, 1.0]),
        _run_of(tmp_path / 'b', 1, 1, [0.0, 3.0]),
        _run_of(tmp_path / 'c', 0, 5, [4.0, 4.0]),
    ]
    assert plots.settings(paths) == ['n_step 1', 'n_step 1', 'n_step 5']
    with pytest.raises(ValueError, match='must be seeds of one setting, got n_step 1;'):
        plots.plot_runs(paths, tmp_path / 'x.png')
    plots.plot_runs(paths, tmp_path / 'x.png', compare=True, x='seconds')
    (axes,) = figures[0].axes
    first, second = axes.get_lines()
    assert first.get_label() == 'n_step 1: median of 2'
    assert first.get_ydata()[-1] == 2.0
    assert second.get_label() == 'n_step 5'
    assert first.get_xdata()[-1] == 1.0  # Seconds.
    assert len(axes.collections) == 1  # The range of the two seeds.
    assert axes.get_title() == 'apex_dqn on catch'


def test_a_run_without_an_evaluation_is_left_out_with_a_warning(
    tmp_path, figures, caplog
):
    paths = [
        _run_of(tmp_path / 'a', 0, 1, [0.0, 1.0]),
        _run_of(tmp_path / 'b', 1, 1, []),
    ]
    plots.plot_runs(paths, tmp_path / 'x.png')
    assert len(figures[0].axes[0].get_lines()) == 1
    assert 'b is left out: it has no evaluation yet' in caplog.text
    with pytest.raises(ValueError, match='must hold the return of an episode'):
        plots.plot_runs(paths[1:], tmp_path / 'x.png')


def test_long_names_of_settings_leave_the_curves_their_room(tmp_path, figures):
    x, name = np.array([0.0, 1.0]), ', '.join(f'a_setting_{i} {i}' for i in range(9))
    plots.plot_groups({name: [(x, x)]}, tmp_path / 'x.png', 'title ' * 30)
    [figure] = figures
    [axes] = figure.axes
    [legend] = figure.legends
    canvas = backend_agg.FigureCanvasAgg(figure)
    canvas.draw()
    drawn = canvas.get_renderer()
    assert axes.bbox.width > 0.8 * figure.bbox.width
    assert axes.bbox.height > 0.4 * figure.bbox.height
    assert not axes.bbox.overlaps(legend.get_window_extent(drawn))
    for text in (axes.title, legend):
        box = text.get_window_extent(drawn)
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width


def test_plot_runs_names_agents_where_they_differ(tmp_path):
    paths = [
        _run_of(tmp_path / 'a', 0, 1, [0.0]),
        _run_of(tmp_path / 'b', 0, 5, [0.0], agent='r2d2'),
    ]
    assert plots.settings(paths) == ['agent apex_dqn', 'agent r2d2']
    assert plots.settings(paths[:1]) == ['apex_dqn']


def test_plot_runs_takes_seeds_of_one_setting(tmp_path, figures):
    paths = [_run_of(tmp_path / str(s), s, 1, [0.0, float(s)]) for s in range(3)]
    plots.plot_runs(paths, tmp_path / 'x.png')
    assert figures[0].axes[0].get_lines()[0].get_ydata()[-1] == 1.0
    _write(_create(tmp_path / 'empty').csv / 'evaluator.csv', [{'episodes': 0}])
    with pytest.raises(ValueError, match='must hold the return of an episode'):
        plots.plot_runs([tmp_path / 'empty'], tmp_path / 'x.png')
