"""Rules across the sections of a pipeline YAML, one named function each."""
