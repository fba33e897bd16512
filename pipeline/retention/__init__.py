"""What a root keeps, and what it gives back."""
