"""Chunks and the files joined from them hold the records that were written, and are written block by block."""

import gzip
import io
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from fullpass.base.files import opened
from fullpass.components.ingest.writing import record_writer
from fullpass.components.ingest.writing.record_writer import ChunkWriter, JoinChunks, publish
from fullpass.components.ingest.writing.shards import ShardLayout
from fullpass.preprocessing.internals.beam_internals import local_pipeline

# Lengths of which no sum ends where a block ends, and one record that is longer than a block.
RECORDS = [np.random.default_rng(i).bytes(701 + 37 * (i % 13)) for i in range(3000)] + [bytes(300_001)]


@pytest.fixture
def writes(monkeypatch):
    """The bytes of each write that the system gets for a file of records."""
    sizes = []

    class Seen(io.FileIO):
        def write(self, content):
            sizes.append(len(content))
            return super().write(content)

    def opened_and_seen(path, mode="rb"):
        return io.BufferedWriter(Seen(path, mode)) if mode == "wb" else opened(path, mode)

    monkeypatch.setattr(record_writer, "opened", opened_and_seen)
    return sizes


def write(folder: Path, layout: ShardLayout) -> list[Path]:
    """Writes `RECORDS` as two chunks, joins them, and returns the files of the split."""
    chunks = []
    for prefix, records in (("a", RECORDS[:2000]), ("b", RECORDS[2000:])):
        writer = ChunkWriter(str(folder), "train", prefix, layout)
        writer.write(pa.array(records, pa.binary()))
        writer.close()
        chunks += writer.chunks
    with local_pipeline() as pipeline:
        _ = pipeline | beam.Create([("train", chunk) for chunk in chunks]) | JoinChunks(layout)
    publish(str(folder), "train", chunks, layout)
    return sorted((folder / "Split-train").iterdir())


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("zipped", [False, True])
def test_joined_files_hold_the_records_and_are_written_in_blocks(tmp_path, writes, seed, zipped):
    files = write(tmp_path, ShardLayout(1 << 20, readers=1, gzip=zipped, seed=seed))
    assert len(files) > 2
    kind = "GZIP" if zipped else ""
    found = [record for file in files for record in tf.data.TFRecordDataset(str(file), kind).as_numpy_iterator()]
    assert found == RECORDS if seed is None else sorted(found) == sorted(RECORDS)
    whole = [gzip.decompress(file.read_bytes()) if zipped else file.read_bytes() for file in files]
    assert sum(map(len, whole)) == sum(len(record) + 16 for record in RECORDS)
    assert max(writes) < 260 * 1024  # gzip adds a few bytes to what it cannot compress
