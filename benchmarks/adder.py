"""Environment steps per second of the adders alone, on rows that were recorded."""

from __future__ import annotations

import argparse

from benchmarks import actor


def run(args: argparse.Namespace) -> list[dict]:
    """Compares each agent's adder with the peer's."""
    return actor.run(args, 'add')
