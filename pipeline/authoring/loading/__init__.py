"""From YAML to a validated config."""
