"""Runs the nodes of a pipeline as processes of this machine."""
