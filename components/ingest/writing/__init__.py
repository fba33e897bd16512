"""Rows to sharded TFRecord files and their manifest."""
