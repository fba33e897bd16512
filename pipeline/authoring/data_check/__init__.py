"""Checks of a pipeline file against a sample of its data."""
