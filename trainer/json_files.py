"""Writes JSON files atomically: a reader finds a complete file or none."""

import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from fullpass.base.json_text import to_json_text


def write_json(path: str, record: Mapping[str, Any]) -> None:
    """Writes a JSON file under another name first, and then renames it."""
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(f"{path}.tmp", "w") as file:
        file.write(to_json_text(record, indent=2))
    tf.io.gfile.rename(f"{path}.tmp", path, overwrite=True)
