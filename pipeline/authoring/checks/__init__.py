"""Rules across the sections of a pipeline file."""
