"""Loads YAML into a validated config."""
