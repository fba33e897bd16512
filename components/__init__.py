"""TFX components that TFX does not provide, or that replace the stock ones."""
