"""Files of Arrow's own formats: Parquet, Arrow IPC and ORC. `a.b` is field b of the struct a."""

from collections.abc import Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet

from components.ingest.files import SourceFile
from components.ingest.reading import BATCH_ROWS, Part, Reading, Rows, batches_of, check_columns, readable
from components.ingest.storage import is_address, open_raw

_PART_BYTES = 64 << 20


class ParquetReader:
    """See `Reader`. Parts are runs of row groups."""

    def __init__(self, file: SourceFile, source: object):
        self._path = file.path

    def columns(self) -> list[str]:
        """See base class."""
        with readable(self._path), _open(self._path) as stream:
            return names_of(pa.parquet.ParquetFile(stream).schema_arrow)

    def parts(self) -> list[Part]:
        """See base class."""
        with readable(self._path), _open(self._path) as stream:
            metadata = pa.parquet.ParquetFile(stream).metadata
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            return _runs([(group.num_rows, group.total_byte_size) for group in groups])

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        with readable(self._path), _open(self._path) as stream:
            file = pa.parquet.ParquetFile(stream)
            check_columns(self._path, list(reading.columns), names_of(file.schema_arrow))
            roots = None if reading.whole else roots_of(list(reading.columns), file.schema_arrow)
            groups = range(file.num_row_groups)[reading.part.begin : reading.part.end]
            first = reading.part.first_row
            for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=list(groups), columns=roots):
                rows_read = first + batch.num_rows - reading.part.first_row
                reading.consumed = reading.file.size * rows_read // file.metadata.num_rows
                yield from batches_of_table(pa.Table.from_batches([batch]), first, reading)
                first += batch.num_rows


class OrcReader:
    """See `Reader`. Parts are runs of stripes."""

    def __init__(self, file: SourceFile, source: object):
        self._path = file.path

    def columns(self) -> list[str]:
        """See base class."""
        with readable(self._path), _open(self._path) as stream:
            return names_of(pa.orc.ORCFile(stream).schema)

    def parts(self) -> list[Part]:
        """See base class."""
        with readable(self._path), _open(self._path) as stream:
            file = pa.orc.ORCFile(stream)
            stripe_bytes = file.content_length // max(file.nstripes, 1)
            first_column = file.schema.names[:1]  # no column at all would give no rows
            rows = [file.read_stripe(i, columns=first_column).num_rows for i in range(file.nstripes)]
            return _runs([(count, stripe_bytes) for count in rows])

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        with readable(self._path), _open(self._path) as stream:
            file = pa.orc.ORCFile(stream)
            check_columns(self._path, list(reading.columns), names_of(file.schema))
            roots = None if reading.whole else roots_of(list(reading.columns), file.schema)
            first = reading.part.first_row
            for stripe in range(file.nstripes)[reading.part.begin : reading.part.end]:
                table = pa.Table.from_batches([file.read_stripe(stripe, columns=roots)])
                yield from batches_of_table(table, first, reading)
                first += table.num_rows


class ArrowReader:
    """See `Reader`. Files are cut into runs of record batches; a stream is read as a whole."""

    def __init__(self, file: SourceFile, source: object):
        self._path = file.path

    def columns(self) -> list[str]:
        """See base class."""
        with readable(self._path), _open(self._path) as stream:
            return names_of(_ipc(stream).schema)

    def parts(self) -> list[Part]:
        """See base class."""
        with readable(self._path), _open(self._path) as stream:
            file = _ipc(stream)
            if isinstance(file, pa.RecordBatchStreamReader):
                return [Part()]
            batches = [file.get_batch(i) for i in range(file.num_record_batches)]
            return _runs([(batch.num_rows, batch.nbytes) for batch in batches])

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        with readable(self._path), _open(self._path) as stream:
            file = _ipc(stream)
            check_columns(self._path, list(reading.columns), names_of(file.schema))
            first = reading.part.first_row
            for batch in _ipc_batches(file, reading.part):
                table = pa.Table.from_batches([batch])
                yield from batches_of_table(table, first, reading)
                first += table.num_rows


def names_of(schema: pa.Schema) -> list[str]:
    """Returns the columns of a schema, and the fields of its structs as `a.b`."""
    nested = (name for field in schema for name in _names(field.name, field.type))
    return [*schema.names, *(name for name in nested if name not in schema.names)]


def roots_of(columns: Sequence[str], schema: pa.Schema) -> list[str]:
    """Returns the top-level columns that hold `columns`."""
    present = set(schema.names)
    return list(dict.fromkeys(name if name in present else _root(name, present) for name in columns))


def select(table: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> pa.Table:
    """Returns the columns, in the order given; `a.b` is field b of the struct a."""
    table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    return pa.table([_column(table, name) for name in columns], names=list(columns))


def _names(name: str, kind: pa.DataType) -> Iterator[str]:
    yield name
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _names(f"{name}.{kind[i].name}", kind[i].type)


def _root(name: str, present: set[str]) -> str:
    """Returns the longest column that a dotted name begins with."""
    parts = name.split(".")
    prefixes = (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
    return next(prefix for prefix in prefixes if prefix in present)


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name in table.column_names:
        return table.column(name)
    root = _root(name, set(table.column_names))
    column, rest = table.column(root), name[len(root) + 1 :]
    while rest:
        fields = [column.type[i].name for i in range(column.type.num_fields)]
        field = next(f for f in sorted(fields, key=len, reverse=True) if rest == f or rest.startswith(f"{f}."))
        column, rest = pc.struct_field(column, [fields.index(field)]), rest[len(field) + 1 :]
    return column


def batches_of_table(table: pa.Table, first: int, reading: Reading) -> Iterator[Rows]:
    """Yields a table in batches of what `reading` needs of it, rows numbered from `first`."""
    return batches_of(select(table, list(reading.columns)), first, table if reading.whole else None)


def _runs(sizes: Sequence[tuple[int, int]]) -> list[Part]:
    """Returns runs of pieces of about `_PART_BYTES`, given the rows and bytes of each piece."""
    parts: list[Part] = []
    begin, first, rows, run_bytes = 0, 1, 0, 0
    for i, (piece_rows, piece_bytes) in enumerate(sizes):
        rows += piece_rows
        run_bytes += piece_bytes
        if run_bytes >= _PART_BYTES or i == len(sizes) - 1:
            parts.append(Part(begin, i + 1, first))
            begin, first, rows, run_bytes = i + 1, first + rows, 0, 0
    return parts


def _open(path: str) -> Any:
    return open_raw(path) if is_address(path) else pa.OSFile(path)


def _ipc(stream: IO[bytes]) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    magic = stream.read(6)
    stream.seek(0)
    return pa.ipc.open_file(stream) if magic == b"ARROW1" else pa.ipc.open_stream(stream)


def _ipc_batches(file: Any, part: Part) -> Iterator[pa.RecordBatch]:
    if isinstance(file, pa.RecordBatchStreamReader):
        yield from file
    else:
        for i in range(file.num_record_batches)[part.begin : part.end]:
            yield file.get_batch(i)
