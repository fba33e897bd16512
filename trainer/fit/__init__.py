"""Fitting a model: epochs, steps, devices, checkpoints."""
