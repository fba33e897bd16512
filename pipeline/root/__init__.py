"""The root of a pipeline: its files, their locks and seals, and the checks before it is used."""
