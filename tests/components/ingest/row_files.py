"""The same rows in every format of `FORMATS`, each written by a library of that format.

Tests over all formats take their names from `FORMATS` and their files from here, so a new format needs a row of
`SAMPLES` and no other test file.
"""

import csv
import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pydantic import TypeAdapter

from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.sources.formats import FILE_FORMATS, FORMATS, Source
from tests.image_files import encode_image
from tests.record_files import example, write_records
from tests.spreadsheet_files import write_xlsx

_NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_LARGEST = 1e30
"""A number that float32 holds."""
_AVRO = {pa.string(): "string", pa.int64(): "long", pa.float64(): "double", pa.float32(): "float"}
_SQL = {pa.string(): "TEXT", pa.int64(): "INTEGER", pa.float64(): "REAL"}
_FIELDS = descriptor_pb2.FieldDescriptorProto
_PROTO = {pa.string(): _FIELDS.TYPE_STRING, pa.int64(): _FIELDS.TYPE_INT64, pa.float64(): _FIELDS.TYPE_DOUBLE}
_rows_of_module: list[Mapping[str, Any]] = []


@dataclass(frozen=True)
class How:
    """How rows are written: `group` of them in a part of a Parquet or Arrow file, and `null` as the text of a missing
    cell where a format has none. options: further fields of the source."""

    group: int
    null: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    """How tests write a format. write: may return further fields of the source. columns: None, or the only ones."""

    write: Callable[[Path, pa.Table, How], Mapping[str, Any] | None]
    ending: str = ""
    nested: bool = False
    columns: tuple[str, ...] | None = None


def write_rows(
    folder: Path,
    format: str,
    rows: Sequence[Mapping[str, Any]] | pa.Table,
    *,
    group: int = 25,
    null: str = "",
    **options: Any,
) -> tuple[Any, SourceFile]:
    """Writes rows in a format; returns the source and its only input.

    Args:
        rows: Text, whole numbers and numbers by column; of nested formats also structs and lists.
        options: Further fields of the source, such as `separator`.
    """
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows))
    sample = sample_of(format)
    path = folder / f"rows.{sample.ending or format}"
    found = sample.write(path, table, How(group, null, options)) or {}
    where = {"path": str(path)} if format in FILE_FORMATS else {}
    source = source_of(format=format, **where, **options, **found)
    [file] = find_inputs(source, str)
    return source, file


def sample_of(format: str) -> Sample:
    """Returns how tests write a format.

    Raises:
        AssertionError: None of them does.
    """
    assert format in SAMPLES, (
        f"No test reads a file of the format {format!r}. Add a row {format!r} to SAMPLES in "
        "tests/components/ingest/row_files.py: a function that writes an Arrow table to a path."
    )
    return SAMPLES[format]


def source_of(**section: Any) -> Any:
    """Returns the model of a section `source`."""
    return TypeAdapter(Source).validate_python(section)


def source_of_function(function: Any) -> tuple[Any, SourceFile]:
    """Returns the source that calls a function of a test module, and its only input."""
    source = source_of(format="module", function=f"{function.__module__}:{function.__name__}")
    [file] = find_inputs(source, str)
    return source, file


def rows_of_module() -> Any:
    """Yields the rows written last for the format `module`."""
    yield from _rows_of_module


def _write_csv(path: Path, table: pa.Table, how: How) -> None:
    decimal, encoding = how.options.get("decimal", "."), how.options.get("encoding", "utf-8")

    def cell(value: Any) -> Any:
        return how.null if value is None else str(value).replace(".", decimal) if isinstance(value, float) else value

    with path.open("w", newline="", encoding=encoding, errors="replace") as file:
        writer = csv.writer(file, delimiter=how.options.get("separator", ","), lineterminator="\r\n")
        if "columns" not in how.options:
            writer.writerow(table.column_names)
        writer.writerows(map(cell, row.values()) for row in table.to_pylist())


def _write_excel(path: Path, table: pa.Table, how: How) -> None:
    def cell(value: Any) -> Any:
        return (how.null or None) if value is None else _NOT_IN_XML.sub("?", value) if isinstance(value, str) else value

    write_xlsx(path, {"rows": [table.column_names, *(list(map(cell, row.values())) for row in table.to_pylist())]})


def _write_json_lines(path: Path, table: pa.Table, how: How) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), encoding="utf-8")


def _write_avro(path: Path, table: pa.Table, how: How) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, _avro_record("row", table.schema), table.to_pylist(), codec="deflate")


def _avro_record(name: str, fields: Any) -> dict[str, Any]:
    def kind(field: pa.Field) -> Any:
        if pa.types.is_struct(field.type):
            return _avro_record(field.name, field.type)
        if pa.types.is_list(field.type):
            return {"type": "array", "items": _AVRO[field.type.value_type]}
        return _AVRO[field.type]

    return {"type": "record", "name": name, "fields": [{"name": f.name, "type": ["null", kind(f)]} for f in fields]}


def _write_tfrecord(path: Path, table: pa.Table, how: How) -> None:
    rows = (
        {n: np.clip(v, -_LARGEST, _LARGEST) if isinstance(v, float) else v for n, v in row.items()}
        for row in table.to_pylist()
    )
    write_records(path, map(example, rows))


def _write_proto(path: Path, table: pa.Table, how: How) -> Mapping[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="rows.proto")
    fields = enumerate(table.schema, start=1)
    file.message_type.add(name="Row").field.extend(
        _FIELDS(name=f.name, number=i, type=_PROTO[f.type], label=_FIELDS.LABEL_OPTIONAL) for i, f in fields
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("Row"))
    write_records(path, [kind(**row).SerializeToString() for row in table.to_pylist()])
    described = path.with_name("rows.descriptors")
    described.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return {"descriptor_set": str(described), "message": "Row"}


def _write_sql(path: Path, table: pa.Table, how: How) -> Mapping[str, Any]:
    columns = ", ".join(f"{field.name} {_SQL[field.type]}" for field in table.schema)
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE trips ({columns})")
        places = ", ".join(f":{name}" for name in table.column_names)
        connection.executemany(f"INSERT INTO trips VALUES ({places})", table.to_pylist())
    return {"url": f"sqlite:///{path}", "query": "trips"}


def _write_tfds(path: Path, table: pa.Table, how: How) -> Mapping[str, Any]:
    import tensorflow_datasets as tfds

    kinds = {pa.string(): tfds.features.Text(), pa.int64(): np.int64, pa.float64(): np.float64}
    features = tfds.features.FeaturesDict({field.name: kinds[field.type] for field in table.schema})
    cells = [{n: how.null if v is None else v for n, v in row.items()} for row in table.to_pylist()]

    class Rows(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")
        code_path = None  # nothing to download, so there is no file of checksums

        def _info(self) -> Any:
            return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"rows": self._generate_examples()}

        def _generate_examples(self) -> Any:
            yield from enumerate(cells)

    Rows(data_dir=str(path.parent)).download_and_prepare()
    return {"name": "rows", "data_dir": str(path.parent), "splits": "rows"}


def _write_numpy(path: Path, table: pa.Table, how: How) -> None:
    nulls = {pa.string(): how.null, pa.int64(): 0, pa.float64(): np.nan}
    columns = {f.name: table[f.name].fill_null(pa.scalar(nulls[f.type], f.type)).to_pylist() for f in table.schema}
    np.savez(path, **{name: np.array(cells) for name, cells in columns.items()})


def _write_module(path: Path, table: pa.Table, how: How) -> Mapping[str, Any]:
    _rows_of_module[:] = table.to_pylist()
    return {"function": f"{__name__}:{rows_of_module.__name__}"}


def _write_images(path: Path, table: pa.Table, how: How) -> Mapping[str, Any]:
    """Writes a manifest: every row has one image."""
    path.with_name("dot.png").write_bytes(encode_image(np.ones((2, 2), np.uint8)))
    _write_csv(path, table.append_column("file", pa.array(["dot.png"] * len(table))), how)
    return {"labels": "manifest"}


def _write_text(path: Path, table: pa.Table, how: How) -> None:
    path.write_text("".join(f"{how.null if text is None else text}\n" for text in table["text"].to_pylist()))


SAMPLES = {
    "csv": Sample(_write_csv),
    "excel": Sample(_write_excel, "xlsx"),
    "jsonl": Sample(_write_json_lines, nested=True),
    "parquet": Sample(lambda path, table, how: pq.write_table(table, path, row_group_size=how.group), nested=True),
    "arrow": Sample(
        lambda path, table, how: pa.feather.write_feather(table, str(path), chunksize=how.group), nested=True
    ),
    "orc": Sample(lambda path, table, how: pa.orc.write_table(table, str(path)), nested=True),
    "avro": Sample(_write_avro, nested=True),
    "tfrecord": Sample(_write_tfrecord),
    "proto": Sample(_write_proto, "tfrecord"),
    "serving_log": Sample(_write_json_lines, "jsonl", nested=True),
    "sql": Sample(_write_sql, "db"),
    "tfds": Sample(_write_tfds),
    "numpy": Sample(_write_numpy, "npz"),
    "module": Sample(_write_module),
    "images": Sample(_write_images, "csv"),
    "text": Sample(_write_text, "txt", columns=("text",)),
}
"""Value of `data.source.format` -> how tests write it."""

SERVICES = {"bigquery"}
"""Formats that are not files: `test_bigquery.py` has a server of its own."""
WRITTEN = tuple(name for name in FORMATS if name not in SERVICES)
"""The formats to test with rows that are written."""
OF_COLUMNS = tuple(name for name in WRITTEN if name not in SAMPLES or SAMPLES[name].columns is None)
"""Those of them whose rows may have any columns."""
