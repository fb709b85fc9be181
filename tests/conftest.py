"""What every test runs under."""

import repertory  # noqa: F401  Before TensorFlow, as in the programs that users start.
