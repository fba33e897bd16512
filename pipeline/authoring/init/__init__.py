"""Writes a pipeline file from data."""
