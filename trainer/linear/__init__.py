"""Linear models that are fitted exactly, by scikit-learn, and written as Keras layers."""
