"""Where raw data lies: the declared source, its files, and how they are opened."""
