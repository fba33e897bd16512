"""Ids as integers, floats and text: a token is written in one way, and its rows are in one split."""

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from fullpass.components.ingest.config import HashSplit
from fullpass.components.ingest.sources.config import CsvSource, JsonLinesSource, ParquetSource
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.fuzz.accounted import ingested

_COLUMNS = (RawColumn("id", "string", token=True), RawColumn("key", "number"))
_ROWS = 200
_OTHER = ("007", "1e3", "1.50", "-", "v1.0", "1.0.0", "+5.0", "0x10", "", "..", "2024-01-01", "١.0")


def try_one(seed: int, folder: Path) -> str:
    """Ingests ids in random spellings and compares the records with the numbers that were written."""
    rng = random.Random(seed)
    ids = [rng.randint(-(10**size), 10**size) for size in (1, 3, 6, 15, 18) for _ in range(4)]
    rows = [rng.choice(ids) for _ in range(_ROWS)]
    kind = ("csv", "jsonl", "text", "floats", "integers")[seed % 5]
    as_text = kind in ("csv", "jsonl", "text")
    if kind == "floats":
        rows = [row for row in rows if abs(row) < 2**53]
    expected = [str(row) for row in rows]
    texts = [f"{row}{rng.choice(('', '.0', '.00', '.000000'))}" for row in rows]
    if as_text:
        other = [rng.choice(_OTHER[:-4]) for _ in range(20)]
        expected, texts = expected + other, texts + other
    path = folder / f"rows.{kind if kind in ('csv', 'jsonl') else 'parquet'}"
    if kind == "csv":
        path.write_text("".join(["id,key\n", *(f"{text},{i}\n" for i, text in enumerate(texts))]))
        source = CsvSource(format="csv", path=str(path))
    elif kind == "jsonl":
        # A whole number without quotes may be a number or a text; with a point it is a float, so it must be exact.
        cells = [
            int(e) if rng.random() < 0.3 and e.lstrip("-").isdigit() and e != "007" else t
            for e, t in zip(expected, texts, strict=True)
        ]
        path.write_text("".join(json.dumps({"id": cell, "key": i}) + "\n" for i, cell in enumerate(cells)))
        source = JsonLinesSource(format="jsonl", path=str(path))
    else:
        column = {"text": texts, "floats": [float(row) for row in rows], "integers": rows}[kind]
        pq.write_table(pa.table({"id": column, "key": range(len(column))}), path)
        source = ParquetSource(format="parquet", path=str(path))
    split = HashSplit(method="hash", column="id")
    outcome = ingested(source, _COLUMNS, folder, seed, split=split)
    assert outcome.refused is None and outcome.quarantined == 0, outcome
    splits: dict[str, set[str]] = {}
    for name, paths in outcome.chunks.items():
        for record in tf.data.TFRecordDataset(paths).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            token = features["id"].bytes_list.value[0].decode()
            assert token == expected[int(features["key"].float_list.value[0])], (token, features["key"])
            splits.setdefault(token, set()).add(name)
    assert all(len(names) == 1 for names in splits.values()), splits
    return "read"
