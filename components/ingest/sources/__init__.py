"""The source of the raw data: its declaration, its files, and how they are opened."""
