"""Model architectures: each builds an uncompiled Keras model that outputs logits."""
