"""Measures of a pipeline on its own data, and what they advise."""
