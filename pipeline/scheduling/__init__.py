"""Starts runs by time, by new data, and by hand."""
