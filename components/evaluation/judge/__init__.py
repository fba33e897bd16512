"""Judges the measurements of an evaluation: each metric against its bounds, and the verdict that is recorded."""
