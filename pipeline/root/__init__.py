"""The root of a pipeline: its files, their locks, and the checks before it is used."""
