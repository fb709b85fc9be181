import inspect
import logging

from repertory.launch import entry, log_watcher


def test_warnings_are_found_once_as_they_are_written(tmp_path):
    old = '1 2 WARNING repertory.x: of an earlier start\n'
    (tmp_path / 'learner.log').write_text(old)
    watcher = log_watcher.LogWatcher(tmp_path)
    assert watcher.new_warnings() == []
    with open(tmp_path / 'learner.log', 'a') as file:
        file.write('1 2 INFO repertory.x: all is well\n')
        file.write('1 2 WARNING tensorflow: not ours\n')
        file.write('1 2 WARNING repertory.launch.control: learner waits: an item\n')
        file.write('1 2 WARNING repertory.x: vmax 5: too low\n')
        file.write('1 2 WARNING repertory.x: half a l')
        file.flush()
        assert watcher.new_warnings() == ['learner: vmax 5: too low']
        file.write('ine\n')
    (tmp_path / 'launcher.log').write_text('1 2 ERROR repertory.y: here\n')
    assert watcher.new_warnings() == ['here', 'learner: half a line']
    assert watcher.new_warnings() == []


def test_the_format_is_that_of_the_nodes_and_is_recognised(tmp_path):
    assert log_watcher.FORMAT in inspect.getsource(entry)
    watcher = log_watcher.LogWatcher(tmp_path)
    handler = logging.FileHandler(tmp_path / 'actor_0.log')
    handler.setFormatter(logging.Formatter(log_watcher.FORMAT))
    logger = logging.getLogger('repertory.test')
    logger.addHandler(handler)
    logger.warning('a %s', 'text')
    logger.removeHandler(handler)
    assert watcher.new_warnings() == ['actor_0: a text']
