"""The pushed models of a pipeline."""
