"""Checks the requirements of a machine to record runs in MLflow."""

import os
from collections.abc import Mapping
from importlib.util import find_spec

ADDRESS_VARIABLE = "MLFLOW_TRACKING_URI"
"""Environment variable with the server's address; MLflow's client reads it, and the variables of logins and tokens."""


def missing_for_mlflow(environment: Mapping[str, str] = os.environ) -> str | None:
    """Returns the requirement that this machine lacks to record runs in MLflow, or None."""
    if find_spec("mlflow") is None:
        return (
            "the Python package mlflow-skinny is not installed here. Install fullpass[mlflow], or mlflow-skinny alone."
        )
    if not environment.get(ADDRESS_VARIABLE, "").strip():
        return f"the environment variable {ADDRESS_VARIABLE} is not set here."
    return None
