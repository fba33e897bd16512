"""The search for hyperparameters: its section of the YAML, what its paths mean, and the search itself."""
