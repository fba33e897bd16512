"""Runs by the clock, by new data, and by hand."""
