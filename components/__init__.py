"""TFX components that TFX does not provide, or that replace the stock ones.

A pipeline of TFX that is written by hand gets them from `fullpass.tfx_components` (docs/from-tfx.md).
"""
