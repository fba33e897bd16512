"""Joins of the rows with other tables, by key and by time, before anything else reads a column."""
