"""Transformed examples from files to batches."""
