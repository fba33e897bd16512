"""Transforms features in the graph, with TensorFlow operations and TF Transform analyzers."""
