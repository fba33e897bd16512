"""The TFX components that TFX itself lacks."""
