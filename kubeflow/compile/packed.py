"""Large constants of a task, compressed into one argument of its container.

As a parameter, a constant stands in the specification of the DAG, in the task's, and in the message to the container;
Linux limits each of these. The backend's cache goes by arguments as it does by parameters.
"""

import base64
import json
import zlib
from typing import Any

from fullpass.preprocessing.errors import UserError

MOST_CHARACTERS = 1_000
"""Longer texts are packed. Shorter ones stay parameters, which Kubeflow's page of a run shows."""


def pack(value: Any) -> str:
    """Returns JSON data as letters, digits, `-`, `_` and `=`, which neither Argo nor Kubernetes replaces.

    Example:
        >>> unpack(pack({"text": "{{$}}"}))
        {'text': '{{$}}'}
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: str) -> Any:
    """Returns what `pack` was given.

    Raises:
        UserError: The text was not written by `pack`.
    """
    try:
        return json.loads(zlib.decompress(base64.urlsafe_b64decode(text)))
    except (ValueError, zlib.error) as error:
        raise UserError(
            f"not what `fullpass compile` wrote ({error}). Compile the package anew. Received: {text[:80]!r}"
        ) from error
