"""Our side of the benchmarks, each a process of its own."""
