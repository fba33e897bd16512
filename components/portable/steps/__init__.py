"""The steps of the preprocessing of a portable model, by family, with NumPy alone."""
