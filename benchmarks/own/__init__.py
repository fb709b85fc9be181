"""Our side of the benchmarks, each a process of its own."""

import repertory  # noqa: F401  Before TensorFlow, as in the programs that it starts.
