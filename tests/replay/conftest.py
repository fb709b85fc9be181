"""Servers and rows for the tests of replay."""

from __future__ import annotations

import pytest

from repertory.replay import server


@pytest.fixture
def serve():
    """Returns a function that serves tables until the test is over."""
    servers = []

    def start(*specs, **options) -> server.ReplayServer:
        servers.append(server.ReplayServer(specs, **options))
        return servers[-1]

    yield start
    for running in servers:
        running.stop()
