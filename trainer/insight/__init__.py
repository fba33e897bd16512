"""What a trained model is worth, and what it goes by."""
