"""The assignment of rows to splits, and the detection of rows that are in two splits."""
