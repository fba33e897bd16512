"""Watches the served model: reads its request log, judges it by the YAML, and records what it found."""
