"""What a source holds, read from a sample."""
