"""The commands about a served model."""
