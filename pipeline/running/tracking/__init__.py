"""Records runs at an MLflow tracking server."""
