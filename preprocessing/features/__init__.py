"""Declarations of features, transforms and labels. Nothing here imports TensorFlow."""
