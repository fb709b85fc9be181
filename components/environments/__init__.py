"""Environments by id, wrappers, and many lanes in lockstep; no TensorFlow here."""
