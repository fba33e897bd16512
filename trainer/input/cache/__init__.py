"""Rows that are kept in memory or on disk after the first pass."""
