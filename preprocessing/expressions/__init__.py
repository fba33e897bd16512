"""The expression language of derived columns."""
