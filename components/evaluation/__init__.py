"""What makes a model good enough: metrics, slices, thresholds, and the verdict of an evaluation."""
