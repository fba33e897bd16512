"""Rows from a tf.data service."""
