"""Repertory: components, replay, agents and launchers for reinforcement learning."""

from importlib import metadata

__version__ = metadata.version('repertory')
