"""A pipeline file against a sample of its data."""
