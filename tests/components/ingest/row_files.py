"""Files that hold the same rows in every format, each written by a library of that format."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.sources.formats import Source
from tests.record_files import example, write_records
from tests.spreadsheet_files import write_xlsx

KINDS = ("csv", "excel", "jsonl", "parquet", "arrow", "orc", "avro", "tfrecord", "numpy", "sql")
"""The formats that `write_rows` writes."""
_AVRO = {str: "string", int: "long", float: "double"}
_SQL = {str: "TEXT", int: "INTEGER", float: "REAL"}


def write_rows(folder: Path, kind: str, rows: Sequence[Mapping[str, Any]], group: int = 25) -> tuple[Any, SourceFile]:
    """Writes rows in a format; returns the source and its only file.

    Args:
        rows: Text, whole numbers and numbers by column. A text may be None, except in CSV and NumPy.
        group: The number of rows of a part of a Parquet or Arrow file.
    """
    path = folder / ("rows.npz" if kind == "numpy" else f"rows.{kind}")
    names, table = list(rows[0]), pa.Table.from_pylist(list(rows))
    types = {name: type(next((row[name] for row in rows if row[name] is not None), "")) for name in names}
    match kind:
        case "csv":
            lines = [names, *(row.values() for row in rows)]
            path.write_text("".join(",".join(map(str, cells)) + "\n" for cells in lines))
        case "excel":
            write_xlsx(path, {"rows": [names, *([row[name] for name in names] for row in rows)]})
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "parquet":
            pq.write_table(table, path, row_group_size=group)
        case "arrow":
            pa.feather.write_feather(table, str(path), chunksize=group)
        case "orc":
            pa.orc.write_table(table, str(path))
        case "avro":
            fields = [{"name": name, "type": ["null", _AVRO[of]]} for name, of in types.items()]
            with path.open("wb") as file:
                fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows, codec="deflate")
        case "tfrecord":
            write_records(path, map(example, rows))
        case "numpy":
            np.savez(path, **{name: np.array([row[name] for row in rows]) for name in names})
        case "sql":
            with sqlite3.connect(path) as connection:
                connection.execute(f"CREATE TABLE trips ({', '.join(f'{n} {_SQL[of]}' for n, of in types.items())})")
                connection.executemany(f"INSERT INTO trips VALUES ({', '.join(f':{n}' for n in names)})", rows)
            source = source_of(format="sql", url="sqlite:///db", query="trips")
            return source, SourceFile("trips", None, 0, "", f"sqlite:///{path}")
    return source_of(format=kind, path=path.name), SourceFile(str(path), None, path.stat().st_size, "")


def source_of(**section: Any) -> Any:
    """Returns the model of a section `source`."""
    return TypeAdapter(Source).validate_python(section)


def source_of_function(function: Any) -> tuple[Any, SourceFile]:
    """Returns the source that calls a function of a test module, and its only file."""
    path = f"{function.__module__}:{function.__name__}"
    return source_of(format="module", function=path), SourceFile(path, None, 0, "")
