"""Measures where the time of a training step goes, stage by stage, and which settings shorten it."""
