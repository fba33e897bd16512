"""Features, their transforms, derived columns and the preprocessing function."""
