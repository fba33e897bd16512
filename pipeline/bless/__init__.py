"""A model that a person blesses though the Evaluator did not, on the record."""
