"""Runs the nodes of a pipeline on this machine, in processes of their own, and shows how they go."""
