"""From a YAML file to a validated config, and every error of it in words."""
