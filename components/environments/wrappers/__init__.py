"""Wrappers of dm_env environments, one a module."""
