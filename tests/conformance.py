"""dm_env's own test of an environment, as a function."""

from __future__ import annotations

import unittest
from collections.abc import Callable

import dm_env
from dm_env import test_utils


def check(make: Callable[[], dm_env.Environment], num_steps: int = 20) -> None:
    """Runs every test of `dm_env.test_utils` on environments that `make` returns.

    Raises:
        AssertionError: with the traceback of each that fails.
    """

    class Conformance(test_utils.EnvironmentTestMixin, unittest.TestCase):
        def make_object_under_test(self):
            return make()

        def make_action_sequence(self):
            for _ in range(num_steps):
                yield self.make_action()

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Conformance).run(result)
    problems = [trace for _, trace in result.failures + result.errors]
    assert result.testsRun > 0 and not problems, '\n'.join(problems)
