"""Records runs on an MLflow tracking server."""
