"""Writing and checking a pipeline file."""
