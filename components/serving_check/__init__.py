"""ServingCheck: runs a moved copy of the export with TensorFlow alone."""
