"""Adders: rows of N lanes in, items of a replay table out."""
