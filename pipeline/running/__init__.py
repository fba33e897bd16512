"""Running a pipeline on this machine, and recording the outcome."""
