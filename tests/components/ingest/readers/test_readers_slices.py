"""Slices of the batches of every format, which begin in the middle of a buffer, hold the texts of their own rows."""

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from fullpass.components.ingest.readers.read_source import parts_of, read_rows
from fullpass.components.ingest.readers.row_hash import contents
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.byte_batches import cut_batch
from fullpass.preprocessing.values.convert import convert
from tests.components.ingest.row_files import WRITTEN, source_of, source_of_function, write_rows

TEXTS = [
    "longer than its neighbours",
    None,
    "8.0",
    "NA",
    "ü",
    *(f"text {i} " * (i % 3 + 1) for i in range(8)),
    None,
    "z",
]
TABLE = pa.table({"text": TEXTS})


def database_of_duckdb(folder):
    with duckdb.connect(folder / "rows.duckdb") as connection:
        connection.execute("create table rows (text text)")
        connection.executemany("insert into rows values (?)", [(text,) for text in TEXTS])
    url = f"duckdb:///{folder / 'rows.duckdb'}"
    return source_of(format="sql", query="rows", url=url), SourceFile("rows", None, 0, "", url)


def rows_of_batches():
    yield from TABLE.to_batches(max_chunksize=7)


def rows_of_polars():
    return pl.from_arrow(TABLE)


FORMS = {
    "parquet of large text": lambda folder: write_rows(
        folder, "parquet", TABLE.cast(pa.schema([("text", pa.large_string())]))
    ),
    "arrow dictionary": lambda folder: write_rows(
        folder, "arrow", pa.table({"text": TABLE["text"].dictionary_encode()})
    ),
    "duckdb": database_of_duckdb,
    "record batches": lambda folder: source_of_function(rows_of_batches),
    "polars": lambda folder: source_of_function(rows_of_polars),
}
"""Further forms of formats."""


@pytest.mark.parametrize("name", [*WRITTEN, *FORMS])
def test_slices_of_batches_hold_the_texts_of_their_rows(name, tmp_path):
    source, file = FORMS[name](tmp_path) if name in FORMS else write_rows(tmp_path, name, TABLE, null="NA")
    column = RawColumn("text", "string")
    texts, contents_of_rows, offsets = [], [], []
    for part in parts_of(file, source):
        for rows in read_rows(Reading(file, {"text": column}, part, all_columns="to_hash"), source):
            for cut in cut_batch(rows.table, rows=4):
                cells = cut["text"].chunk(0)
                offsets.append(cells.offset)
                texts += convert(cells, column, strip=False, missing=("NA",)).flat.to_pylist()
            contents_of_rows += [
                one for cut in cut_batch(rows.all_columns, rows=4) for one in contents(cut).to_pylist()
            ]
    expected = [None if text in (None, "NA") else text.encode() for text in TEXTS]
    assert texts == expected
    assert offsets[1] > 0
    kept = [one.partition(b"\x1ftext\x1f")[2].partition(b"\x1f")[0] for one in contents_of_rows]
    assert [None if one in (b"", b"NA") else one for one in kept] == expected
