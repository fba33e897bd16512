"""The request log of a served model: its columns and files, which the server writes and the watch reads."""
