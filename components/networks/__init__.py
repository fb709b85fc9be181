"""Sonnet modules."""
