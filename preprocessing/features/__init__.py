"""Features, transforms and labels as declared data. Nothing here imports TensorFlow."""
