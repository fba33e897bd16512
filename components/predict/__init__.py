"""Predictions of an exported model for raw rows in files."""
