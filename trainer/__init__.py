"""The model: input function, architectures, training and export."""
