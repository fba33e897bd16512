"""Fuzz tests: reads randomly damaged files of every kind for a given time."""
