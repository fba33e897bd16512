"""ServingCheck: lets a moved copy of the export answer with TensorFlow alone."""
