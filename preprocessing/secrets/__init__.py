"""Patterns of secrets, and redaction of text. Nothing here imports other code of the project."""
