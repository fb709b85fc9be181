"""Throughput of the parts, against peers and against limits; see README.md."""
