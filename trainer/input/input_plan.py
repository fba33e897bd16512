"""Plans how a split is read, from the section `input:` and the memory and cores of the machine."""

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from fullpass.base.processes import usable_cores
from fullpass.trainer.config import InputConfig
from fullpass.trainer.input.cache.block_cache import CachePlan
from fullpass.trainer.input.memory import available_memory
from fullpass.trainer.input.service.client import DataService, find_service
from fullpass.trainer.records.record_files import fingerprint_of

MAX_READERS = 16
"""Files that are read at the same time at most with `readers: auto`."""
_SMALLEST_WINDOW = 1 << 20
"""Bytes of a window of shuffled rows at least."""
_LARGEST_WINDOW = 256 << 20
"""The same at most."""
_LARGEST_POOL = 64 << 20
"""Bytes of the rows that a block of the cache on disk is drawn from at most."""


@dataclass(frozen=True)
class ReadingPlan:
    """How a split is read.

    Attributes:
        memory_limit: The bytes that its rows may take in memory.
        cache: The cache on disk for rows beyond that, which may already exist; None streams them from the files.
        window_bytes: The bytes of the rows that are shuffled together while they stream, at most.
        service: The tf.data service that parses the records; None parses them in the trainer.
    """

    readers: int = 1
    memory_limit: int = sys.maxsize
    cache: CachePlan | None = None
    window_bytes: int = _LARGEST_WINDOW
    service: DataService | None = None


def plan_reading(config: InputConfig, split: str, files: Sequence[str], key: Mapping[str, Any]) -> ReadingPlan:
    """Returns how a split is read under the section `input:`.

    Args:
        split: The name of the split; rows may be reordered in train only.
        key: The inputs of the rows other than the files, by name; part of the cache key.
    """
    allowed = int(available_memory() * config.memory_fraction)
    limits = {"none": 0, "disk": 0, "memory": sys.maxsize, "auto": allowed}
    window = max(_SMALLEST_WINDOW, min(_LARGEST_WINDOW, allowed // 8))
    service = find_service(config.service)
    cache = None
    if config.cache in ("auto", "disk"):
        root = config.cache_dir or os.path.join(tempfile.gettempdir(), "fullpass-input-cache")
        content = {"files": fingerprint_of(files), **key}
        if service is not None:
            content["order"] = "by file"
        cache = CachePlan(Path(root), split, content, min(_LARGEST_POOL, window), scatter=split == "train")
    readers = min(len(files), MAX_READERS, usable_cores()) if config.readers == "auto" else config.readers
    return ReadingPlan(readers, limits[config.cache], cache, window, service)


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
