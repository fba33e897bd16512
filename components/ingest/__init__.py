"""Converts raw data to TFRecord files of tf.Examples, and accounts for every row."""
