"""Pushes models as numbered versions with their lineage, and finds the last blessed model."""
