"""What every package builds on: errors, files, processes, redaction, progress. It imports no other package."""
