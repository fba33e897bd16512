"""Measures models: what rows add, how it merges, the metrics with their standard errors, curves and classes."""
