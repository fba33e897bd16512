"""Parquet files with damaged footers, pages and dictionaries: all rows are read, or an error rejects the file."""

import io
import random
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fullpass.components.ingest.sources.config import ParquetSource
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.fuzz.accounted import ingested
from tests.fuzz.damage import damaged, flip, flip_one, overwrite

_COLUMNS = (
    *(RawColumn("name", "string"), RawColumn("n", "number"), RawColumn("v", "vector", 2), RawColumn("s.t", "string")),
    *(RawColumn("at", "string"), RawColumn("kind", "string"), RawColumn("bytes", "string")),
)
_FOOTER_SHARE = 0.5
_SMALL_SHARE = 0.7
_OF_PAGES = (flip, overwrite)


@lru_cache
def _sample(compression: str, version: str) -> bytes:
    rows = range(300)
    table = pa.table(
        {
            "name": [f"name {i}" if i % 7 else None for i in rows],
            "n": [i / 3 if i % 5 else None for i in rows],
            "v": pa.array([[i, -i] for i in rows], pa.list_(pa.float32())),
            "s": [{"t": str(i)} if i % 3 else None for i in rows],
            "at": pa.array([i * 10**9 for i in rows], pa.timestamp("us")),
            "kind": pa.array([("a", "bb", None)[i % 3] for i in rows]).dictionary_encode(),
            "bytes": pa.array([bytes([i % 256]) * (i % 9) for i in rows], pa.binary()),
        }
    )
    data = io.BytesIO()
    pq.write_table(table, data, compression=compression, row_group_size=100, data_page_version=version)
    return data.getvalue()


def damaged_file(seed: int) -> bytes:
    """Returns a damaged file. Half of the damage is in the footer, although it is much smaller than the pages."""
    rng = random.Random(seed)
    data = _sample(("none", "snappy", "zstd", "gzip")[seed % 4], ("1.0", "2.0")[seed // 4 % 2])
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    small = rng.random() < _SMALL_SHARE
    if rng.random() < _FOOTER_SHARE:
        tail = flip_one(bytearray(data[footer:-8]), rng) if small else damaged(data[footer:-8], rng)
        length = len(tail) if rng.random() < 0.5 else int.from_bytes(data[-8:-4], "little")
        data = data[:footer] + tail + length.to_bytes(4, "little") + data[-4:]
    else:
        pages = flip_one(bytearray(data[:footer]), rng) if small else damaged(data[:footer], rng, _OF_PAGES)
        data = pages + data[footer:]
    return data


def try_one(seed: int, folder: Path) -> str:
    """Ingests a damaged file, in a fork, as nodes do: Arrow crashes on some files, and the parent names the file."""
    path = folder / "rows.parquet"
    path.write_bytes(damaged_file(seed))
    return ingested(ParquetSource(format="parquet", path=str(path)), _COLUMNS, folder, seed).kind
