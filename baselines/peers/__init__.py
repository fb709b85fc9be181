"""Other toolkits' agents on the same tasks: `python -m baselines.peers.run NAME`."""
