"""Statistics of the raw examples: a single read of the records serves all uses."""
