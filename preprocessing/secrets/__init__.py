"""Secrets: what they look like, and how text is written without them. Nothing here imports anything of the project."""
