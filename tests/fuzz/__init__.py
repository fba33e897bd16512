"""Damaged files of every kind, tried for as long as one likes."""
