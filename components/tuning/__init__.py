"""TFX's Tuner, extended to keep the curves of its trials."""
