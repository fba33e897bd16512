"""The input pipeline: reads transformed examples from files and builds batches."""
