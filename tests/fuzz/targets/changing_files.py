"""Files that change between planning and reading: all old rows are written, or an error names the file."""

import io
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fullpass.components.ingest.sources.config import (
    CsvSource,
    ExcelSource,
    JsonLinesSource,
    ParquetSource,
    TfRecordSource,
)
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.fuzz.accounted import ingested
from tests.fuzz.targets.tfrecord_rows import framed_record
from tests.spreadsheet_files import write_xlsx

_COLUMNS = (RawColumn("name", "string"), RawColumn("n", "number"))
_ROWS = 120


def _csv(names: list[str]) -> bytes:
    return "".join(["name,n\n", *(f"{name},{i}\n" for i, name in enumerate(names))]).encode()


def _json(names: list[str]) -> bytes:
    return "".join(json.dumps({"name": name, "n": i}) + "\n" for i, name in enumerate(names)).encode()


def _parquet(names: list[str]) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"name": names, "n": range(len(names))}), out, row_group_size=50)
    return out.getvalue().to_pybytes()


def _tfrecord(names: list[str]) -> bytes:
    return b"".join(framed_record(i) for i, _ in enumerate(names))


def _excel(names: list[str]) -> bytes:
    out = io.BytesIO()
    write_xlsx(out, {"rows": [["name", "n"], *([name, i] for i, name in enumerate(names))]})
    return out.getvalue()


_FORMATS = (
    (_csv, CsvSource, "csv"),
    (_excel, ExcelSource, "excel"),
    (_json, JsonLinesSource, "jsonl"),
    (_parquet, ParquetSource, "parquet"),
    (_tfrecord, TfRecordSource, "tfrecord"),
)


def _write(path: Path, data: bytes, rng: random.Random) -> None:
    """Writes new content in place, or as another file that is renamed, as programs that export data do."""
    if rng.random() < 0.5:
        path.write_bytes(data)
    else:
        part = path.with_name("part")
        part.write_bytes(data)
        part.replace(path)


def _cut(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def _grow(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    with path.open("ab") as file:
        file.write(write([f"late {i}" for i in range(rng.randint(1, 50))]))


def _replace(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    _write(path, write([f"other {i}" for i in range(rng.randint(1, 2 * _ROWS))]), rng)


def _replace_by_same_size(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    data = path.read_bytes()
    _write(path, data[::-1], rng)


def _remove(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    path.unlink()


def _leave(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    path.read_bytes()


def try_one(seed: int, folder: Path) -> str:
    """Plans the parts of a file, changes it in one of six ways, and ingests it."""
    rng = random.Random(seed)
    write, kind, suffix = _FORMATS[seed % len(_FORMATS)]
    change = rng.choice((_cut, _grow, _replace, _replace_by_same_size, _remove, _leave))
    path = folder / f"rows.{suffix}"
    path.write_bytes(write([f"name {i}" for i in range(_ROWS)]))
    source = kind(format=suffix, path=str(path))
    outcome = ingested(source, _COLUMNS, folder, seed, meanwhile=lambda: change(path, rng, write))
    if change is _leave:
        assert outcome.refused is None and outcome.written == _ROWS, outcome
    else:
        assert outcome.refused is not None, (change.__name__, outcome)
    return outcome.kind
