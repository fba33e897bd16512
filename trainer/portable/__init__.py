"""A trained network of layers of Keras alone."""
