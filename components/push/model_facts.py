"""Reads the description in the export of a model artifact."""

from typing import Any

from fullpass.base import state_file
from fullpass.base.files import read_bytes
from fullpass.components.push.push import DESCRIPTION

_DAMAGED = "Put it back from a copy, or remove it; then no run continues from this model."
SERVING = "Format-Serving"
"""Folder of the export in an artifact of TFX's type Model."""


def export_description(model_uri: str) -> dict[str, Any] | None:
    """Returns `fullpass.json` of a model artifact's export; None if it does not exist.

    Raises:
        DamagedState: The file is damaged.
    """
    path = f"{model_uri}/{SERVING}/{DESCRIPTION}"
    content = read_bytes(path)
    return None if content is None else state_file.decode(content, path, _DAMAGED)
