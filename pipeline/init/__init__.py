"""`fullpass init`: a commented YAML from a profile of the data."""
