"""Compares a trained model with a simple reference, and measures the importance of its features."""
