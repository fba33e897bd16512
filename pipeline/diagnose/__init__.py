"""Measures a pipeline on its own data, and recommends settings."""
