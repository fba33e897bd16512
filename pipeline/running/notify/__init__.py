"""Notifications about the outcomes of runs."""
