"""The search for hyperparameters: its section of the YAML, the meaning of its paths, and the search itself."""
