"""What is known of a run: its facts, their file, and those who read them."""
