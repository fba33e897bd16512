"""The names of the functions of an export; see `signatures.py`. Nothing here imports TensorFlow."""

SERVING_DEFAULT = "serving_default"
SERVING_RAW = "serving_raw"
TRANSFORM_FEATURES = "transform_features"
LABELS = "labels"
"""A function of the loaded export, not a signature."""
