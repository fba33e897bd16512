"""The evaluation of a model: metrics, slices, thresholds, and the verdict."""
