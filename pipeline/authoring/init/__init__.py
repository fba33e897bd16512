"""From data to a pipeline file."""
