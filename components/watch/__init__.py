"""Measures a request log: what came in, what went out, and the metrics once labels are known."""
