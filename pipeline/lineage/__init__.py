"""What made a model, told from the metadata or from the model itself."""
