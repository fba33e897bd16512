"""TFX's Tuner, which keeps the curves of its trials."""
