"""Gradient boosted trees: grown by LightGBM, and written as TensorFlow operations."""
