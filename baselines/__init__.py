"""Learning curves, and what re-makes them: `python -m baselines.run NAME`."""
