"""Writes rows to sharded TFRecord files, and the manifest."""
