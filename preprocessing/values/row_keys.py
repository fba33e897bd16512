"""The names by which Ingest, the Trainer and the served graph agree on joined tables that a model contains."""

TABLES = "joined_tables"
"""Folder of a file JOIN.arrow per table, beside examples and in the transform graph: its keys and its columns."""
KEY = "key"
"""Column of the keys."""
KEY_MARK = "\x1f"
"""Character between the tokens of a key of several columns."""
