"""What the export of a model says of itself."""

import json
from typing import Any

from components.files import read_bytes
from components.push import DESCRIPTION

SERVING = "Format-Serving"
"""Folder of the export in an artifact of TFX's type Model."""


def description(model_uri: str) -> dict[str, Any] | None:
    """Returns what the export of a model artifact says of itself; None if it is gone."""
    content = read_bytes(f"{model_uri}/{SERVING}/{DESCRIPTION}")
    return None if content is None else json.loads(content)
