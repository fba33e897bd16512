"""Date formats, and dates as TensorFlow operations."""
