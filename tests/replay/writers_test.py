import portpicker
import pytest

from repertory.components import core
from repertory.replay import writers


def test_a_writer_waits_for_its_server_to_start():
    reasons = []

    def wait(reason, waited_seconds):
        reasons.append(reason)
        raise core.Stopped

    address = f'localhost:{portpicker.pick_unused_port()}'
    with pytest.raises(core.Stopped):
        writers.RowWriter(address, 'table', num_lanes=1, num_rows=2, wait=wait)
    assert reasons == [f'the replay server at {address} to start']
