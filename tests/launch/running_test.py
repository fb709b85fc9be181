"""How a run ends nodes of several states."""

import pytest

from repertory.launch import running


class Node:
    """Ends where it is killed, or as the coordinator where a stop is requested."""

    pid = None

    def __init__(self, name):
        self.name, self.roles, self.asked, self.ended = name, [name], [], False

    def start(self):
        pass

    def poll(self):
        return '' if self.ended else None

    def terminate(self):
        self.asked.append('terminate')

    def kill(self):
        self.asked.append('kill')
        self.ended = True
        return True


@pytest.mark.parametrize('starting', [['learner'], []])
def test_a_node_that_is_starting_is_not_waited_for(tmp_path, monkeypatch, starting):
    monkeypatch.setattr(running, '_ENDING_SECONDS', 0.2)
    coordinator, learner = Node(running.COORDINATOR), Node('learner')
    run = running.Run(tmp_path, {})

    def call(method, *_):
        coordinator.ended = method == 'request_stop'
        return {'starting': starting}

    monkeypatch.setattr(run, '_call', call)
    run.start([coordinator, learner], None)
    run.stop()
    assert run.wait(10).exit_code == 0
    assert learner.asked[0] == ('kill' if starting else 'terminate')
