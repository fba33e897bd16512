"""Loads packages of the extra `sources` when a source needs them."""

import importlib
from typing import Any

from fullpass.base.errors import UserError


def load_package(module: str, *, package: str, needed_by: str) -> Any:
    """Returns a module of an optional package.

    Raises:
        UserError: The package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"{needed_by} needs the Python package {package}, which is not installed here ({error}). "
            f"Install fullpass[sources], or {package} alone."
        ) from error
