"""Damaged TFRecord files, and files with valid frames but damaged messages."""

import gzip
import random
import struct
from pathlib import Path

import google_crc32c

from fullpass.components.ingest.sources.config import TfRecordSource
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.fuzz.accounted import ingested
from tests.fuzz.damage import damaged

_COLUMNS = (
    RawColumn("name", "string"),
    RawColumn("n", "number"),
    RawColumn("v", "vector", 2),
    RawColumn("i", "string"),
)


def try_one(seed: int, folder: Path) -> str:
    """Ingests damaged records; if all frames are valid, each of them is a row, either written or quarantined."""
    rng = random.Random(seed)
    records = [_record(i, context=seed % 3 == 0) for i in range(40)]
    whole_frames = seed % 2 == 0
    if whole_frames:
        for i in rng.sample(range(len(records)), rng.randint(1, 10)):
            records[i] = damaged(records[i], rng)
    data = b"".join(map(_frame, records))
    if not whole_frames:
        data = damaged(data, rng)
        if rng.random() < 0.2:  # a length beyond any file, with a correct checksum
            data += struct.pack("<Q", 1 << rng.randint(20, 62)) + _checksum(struct.pack("<Q", 1 << 62)) + b"x" * 30
    path = folder / "rows.tfrecord"
    path.write_bytes(gzip.compress(data) if seed % 5 == 0 else data)
    payload = "sequence_example" if seed % 3 == 0 else "example"
    outcome = ingested(TfRecordSource(format="tfrecord", path=str(path), payload=payload), _COLUMNS, folder, seed)
    if whole_frames and outcome.refused is None:
        assert outcome.read == len(records), outcome
    # A message that still parses may hold a feature with another type than its column, which is an error of the source.
    assert not (whole_frames and outcome.refused and "reading stopped" in outcome.refused), outcome
    return outcome.kind


def _record(i: int, *, context: bool) -> bytes:
    from tensorflow.core.example.example_pb2 import Example, SequenceExample

    message = SequenceExample() if context else Example()
    features = (message.context if context else message.features).feature
    features["name"].bytes_list.value.append(f"name {i}".encode() + bytes([i]))
    features["n"].float_list.value.append(i / 3)
    features["v"].float_list.value.extend([i, -i])
    features["i"].int64_list.value.append(i)
    if context:
        message.feature_lists.feature_list["steps"].feature.add().float_list.value.append(i)
    return message.SerializeToString()


def _frame(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return length + _checksum(length) + record + _checksum(record)


def _checksum(data: bytes) -> bytes:
    """Returns the masked CRC of tensorflow/core/lib/hash/crc32c.h."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
