"""Who is told what became of a run."""
