"""Statistics of the raw examples, one read for every use."""
