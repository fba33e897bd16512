"""Converts raw cells of any source to typed values."""
