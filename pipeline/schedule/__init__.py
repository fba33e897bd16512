"""Retraining by the clock and by the data: what is due is a pure function of state and time."""
