"""Writes the reference pages of the documentation."""
