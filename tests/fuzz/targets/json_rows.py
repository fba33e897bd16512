"""Damaged JSON lines with values of every type; each line that is not blank is written or quarantined."""

import gzip
import json
import random
from pathlib import Path

from fullpass.components.ingest.sources.config import JsonLinesSource
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.fuzz.accounted import ingested
from tests.fuzz.damage import cut_file, cut_lines, damaged, flip, insert, overwrite, remove, swap

_COLUMNS = (
    RawColumn("name", "string"),
    RawColumn("n", "number"),
    RawColumn("v", "vector", 2),
    RawColumn("o.k", "string"),
)
_WAYS = (
    *(flip, cut_file, cut_lines, remove, overwrite, swap),
    insert(b"{", b"}", b"[", b"]", b'"', b":", b",", b"\n", b"\r", b"[" * 5000),
    insert(b"1e400", b"-Infinity", b"NaN", b"9" * 5000, b"null", b"true", b"-0", b"1e-400"),
    insert(b'\\ud800"', b"\\u0000", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u2028".encode(), b"\x00", b"\\x"),
    insert(
        b'"n": [1, 2], ', b'"v": {"a": 1}, ', b'"name": {"name": null}, ', b'"v": [[1], "x"], ', b'"o": 5, ', b'"": 1, '
    ),
)


def try_one(seed: int, folder: Path) -> str:
    """Ingests damaged lines and compares the counts with the number of lines."""
    rng = random.Random(seed)
    rows = ({"name": f"n{i}", "n": i / 4, "v": [i, -i], "o": {"k": rng.choice((i, "é", None))}} for i in range(60))
    data = damaged("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode(), rng, _WAYS)
    compressed = seed % 4 == 0
    path = folder / ("rows.jsonl.gz" if compressed else "rows.jsonl")
    path.write_bytes(gzip.compress(data) if compressed else data)
    outcome = ingested(JsonLinesSource(format="jsonl", path=str(path)), _COLUMNS, folder, seed)
    expected = sum(bool(line.strip(b" \t\n\r\x0b\x0c")) for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    assert outcome.refused is None and outcome.read == expected, (expected, outcome)
    return outcome.kind
