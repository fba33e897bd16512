"""What enters and leaves the transform graph: raw columns, their schema, the outputs, and where each is computed."""
