"""Writes a model for LiteRT or ONNX Runtime: its network, its tables, and its preprocessing without TensorFlow."""
