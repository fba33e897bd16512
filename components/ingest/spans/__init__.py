"""The spans of a source: the existing ones, and the ones that a run uses."""
