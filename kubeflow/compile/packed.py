"""Large constants of a task, compressed into one argument of its container.

A constant that is a parameter is part of the specification of the DAG, of that of the task, and of the message to the
container. Linux limits the size of each. The backend's cache key includes arguments as well as parameters.
"""

import base64
import json
import zlib
from typing import Any

from fullpass.base.errors import UserError

MOST_CHARACTERS = 1_000
"""Longer texts are packed. Shorter texts stay parameters, which Kubeflow's page of a run shows."""


def pack(value: Any) -> str:
    """Returns JSON data as letters, digits, `-`, `_` and `=`, which neither Argo nor Kubernetes replaces.

    Example:
        >>> unpack(pack({"text": "{{$}}"}))
        {'text': '{{$}}'}
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: str) -> Any:
    """Returns the data that was packed by `pack`.

    Raises:
        UserError: The text was not written by `pack`.
    """
    try:
        return json.loads(zlib.decompress(base64.urlsafe_b64decode(text)))
    except (ValueError, zlib.error) as error:
        raise UserError(
            f"not data that `fullpass compile` packed ({error}). Compile the package again. Received: {text[:80]!r}"
        ) from error
