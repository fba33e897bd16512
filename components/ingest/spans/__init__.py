"""Spans of a source: which there are, and which of them a run takes."""
