"""Profiles a source from a sample."""
