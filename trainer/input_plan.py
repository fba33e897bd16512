"""How a split is read, decided by `input:` of the YAML and by what the machine has."""

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from preprocessing.cores import usable_cores
from trainer.block_cache import CachePlan, fingerprint_of
from trainer.config import InputConfig
from trainer.input_service import find_service
from trainer.memory import available_memory

MOST_READERS = 16
_SMALLEST_WINDOW, _LARGEST_WINDOW = 1 << 20, 256 << 20
_LARGEST_POOL = 64 << 20


def plan_reading(config: InputConfig, split: str, files: Sequence[str], key: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `load_split` that follow from the config.

    Args:
        config: the section `input`.
        split: name of the split; only of train is the order of the rows free.
        files: of the split.
        key: what the rows follow from besides the files, by name.
    """
    allowed = int(available_memory() * config.memory_fraction)
    limits = {"none": 0, "disk": 0, "memory": sys.maxsize, "auto": allowed}
    window = max(_SMALLEST_WINDOW, min(_LARGEST_WINDOW, allowed // 8))
    bad_records = config.bad_records.max_records if split == "train" else 0
    service = find_service(config.service)
    cache = None
    if config.cache in ("auto", "disk"):
        root = config.cache_dir or os.path.join(tempfile.gettempdir(), "fullpass-input-cache")
        content = {"files": fingerprint_of(files), "bad records": bad_records, **key}
        if service is not None:
            content["order"] = "by file"
        cache = CachePlan(Path(root), split, content, min(_LARGEST_POOL, window), scatter=split == "train")
    readers = min(len(files), MOST_READERS, usable_cores()) if config.readers == "auto" else config.readers
    return {
        "readers": readers,
        "memory_limit": limits[config.cache],
        "cache": cache,
        "window_bytes": window,
        "bad_records": bad_records,
        "service": service,
    }


def graph_digest(tft_output: tft.TFTransformOutput) -> str:
    """Returns a digest of a transform graph, its vocabularies included."""
    digest = hashlib.sha256()
    top = tft_output.transform_savedmodel_dir
    for folder, _, files in sorted(tf.io.gfile.walk(top)):
        for file in sorted(files):
            path = os.path.join(folder, file)
            digest.update(os.path.relpath(path, top).encode())
            with tf.io.gfile.GFile(path, "rb") as opened:
                while chunk := opened.read(8 << 20):
                    digest.update(chunk)
    return digest.hexdigest()
