"""`fullpass check --data`: a config against a sample of its data."""
