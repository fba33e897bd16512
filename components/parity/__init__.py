"""Parity: the check that serving computes the same values as training, feature by feature and row by row."""
