"""Reads the file formats that Arrow supports: Parquet, Arrow IPC and ORC.

Column `a.b` is field b of the struct a. If a is a list of structs, it is the list of their fields b.
"""

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet

from fullpass.base.files import is_address
from fullpass.components.ingest.readers.readable import check_columns, readable
from fullpass.components.ingest.readers.reader import Reader
from fullpass.components.ingest.readers.rows import BATCH_ROWS, PART_BYTES, FilePart, Reading, Rows, numbered, planned
from fullpass.components.ingest.sources.config import FileSource
from fullpass.components.ingest.sources.storage import open_raw, state_of
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES, gather
from fullpass.preprocessing.values.list_values import flatten, is_list, lengths_of, lists_of_lengths

_MAGIC = b"ARROW1"
_DECODED_ROWS = 1024
"""Rows of a Parquet file that are decoded at a time: Arrow needs memory for all of them beside the batch."""
_BUFFER_BYTES = 1 << 20
"""Buffer size per column of a Parquet file. Without a buffer, Arrow reads a whole column chunk at once."""


class TableReader(Reader[FileSource]):
    """Base class of the readers of Arrow's formats. A part is a run of row groups, stripes or record batches."""

    def columns(self) -> list[str]:
        with readable(self._path), _open(self._path) as stream:
            return columns_of_schema(self._schema(self._opened(stream)))

    def parts(self) -> list[FilePart]:
        state = state_of(self._path)
        with readable(self._path), _open(self._path) as stream:
            return planned(_runs(self._sizes(self._opened(stream))), state)

    def dictionary_columns(self) -> frozenset[str]:
        """Returns the columns that are stored as codes into a dictionary of values, such as pandas categoricals.

        Parquet keeps the dictionary type only for text. For other types, the metadata that pandas writes to the schema
        names the categoricals.
        """
        with readable(self._path), _open(self._path) as stream:
            schema = self._schema(self._opened(stream))
        noted = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("columns", [])
        categoricals = {column["name"] for column in noted if column.get("pandas_type") == "categorical"}
        return frozenset(f.name for f in schema if pa.types.is_dictionary(f.type) or f.name in categoricals)

    def rows(self, reading: Reading) -> Iterator[Rows]:
        with readable(self._path, reading), _open(self._path) as stream:
            file = self._opened(stream)
            schema = self._schema(file)
            check_columns(self._path, list(reading.columns), columns_of_schema(schema))
            roots = None if reading.all_columns else roots_of(list(reading.columns), schema)
            yield from rows_of_tables(self._batches(file, roots, reading), reading.part.first_row, reading)

    @abstractmethod
    def _opened(self, stream: Any) -> Any:
        """Returns the open file."""

    def _schema(self, file: Any) -> pa.Schema:
        return file.schema

    @abstractmethod
    def _sizes(self, file: Any) -> list[tuple[int, int]]:
        """Returns the rows and bytes of each group."""

    @abstractmethod
    def _batches(self, file: Any, roots: list[str] | None, reading: Reading) -> Iterator[pa.Table]:
        """Yields the rows of a part; `roots` are the needed top-level columns, None for all."""


class ParquetReader(TableReader):
    def _opened(self, stream: Any) -> Any:
        return pa.parquet.ParquetFile(stream, buffer_size=_BUFFER_BYTES)

    def _schema(self, file: Any) -> pa.Schema:
        return file.schema_arrow

    def _sizes(self, file: Any) -> list[tuple[int, int]]:
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        return [(group.num_rows, group.total_byte_size) for group in groups]

    def _batches(self, file: Any, roots: list[str] | None, reading: Reading) -> Iterator[pa.Table]:
        groups = list(range(file.num_row_groups)[reading.part.begin : reading.part.end])
        rows_read = 0
        decoded = file.iter_batches(batch_size=_rows_to_decode(file.metadata, groups), row_groups=groups, columns=roots)
        for batches in gather(decoded, attrgetter("nbytes"), rows=BATCH_ROWS // _DECODED_ROWS):
            batch = pa.Table.from_batches(batches)
            rows_read += batch.num_rows
            reading.consumed = reading.file.size * rows_read // file.metadata.num_rows
            yield batch


def _rows_to_decode(metadata: Any, groups: Sequence[int]) -> int:
    """Returns the number of rows to decode at a time, which is smaller if the rows of a group are large."""
    of_groups = [metadata.row_group(group) for group in groups]
    largest = max((group.total_byte_size // max(group.num_rows, 1) for group in of_groups), default=0)
    return max(1, min(_DECODED_ROWS, BATCH_BYTES // max(largest, 1)))


class OrcReader(TableReader):
    def _opened(self, stream: Any) -> Any:
        return pa.orc.ORCFile(stream)

    def _sizes(self, file: Any) -> list[tuple[int, int]]:
        stripe_bytes = file.content_length // max(file.nstripes, 1)
        first_column = file.schema.names[:1]  # without a column, num_rows would be 0
        return [(file.read_stripe(i, columns=first_column).num_rows, stripe_bytes) for i in range(file.nstripes)]

    def _batches(self, file: Any, roots: list[str] | None, reading: Reading) -> Iterator[pa.Table]:
        for stripe in range(file.nstripes)[reading.part.begin : reading.part.end]:
            yield pa.Table.from_batches([file.read_stripe(stripe, columns=roots)])


class ArrowReader(TableReader):
    """A stream is one part."""

    def _opened(self, stream: Any) -> Any:
        magic = stream.read(len(_MAGIC))
        stream.seek(0)
        return pa.ipc.open_file(stream) if magic == _MAGIC else pa.ipc.open_stream(stream)

    def _sizes(self, file: Any) -> list[tuple[int, int]]:
        if isinstance(file, pa.RecordBatchStreamReader):
            return [(0, 0)]
        batches = map(file.get_batch, range(file.num_record_batches))
        return [(batch.num_rows, batch.nbytes) for batch in batches]

    def _batches(self, file: Any, roots: list[str] | None, reading: Reading) -> Iterator[pa.Table]:
        if isinstance(file, pa.RecordBatchStreamReader):
            batches: Iterable[pa.RecordBatch] = file
        else:
            batches = map(file.get_batch, range(file.num_record_batches)[reading.part.begin : reading.part.end])
        for batch in batches:
            yield pa.Table.from_batches([batch])


def columns_of_schema(schema: pa.Schema) -> list[str]:
    """Returns the columns of a schema, and the fields of its structs as `a.b`."""
    nested = (name for field in schema for name in _names(field.name, field.type))
    return [*schema.names, *(name for name in nested if name not in schema.names)]


def roots_of(columns: Sequence[str], schema: pa.Schema) -> list[str]:
    """Returns the top-level columns that contain `columns`."""
    present = set(schema.names)
    return list(dict.fromkeys(name if name in present else _root(name, present) for name in columns))


def only_columns(table: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> pa.Table:
    """Returns the given columns, in this order; `a.b` is field b of the struct a."""
    table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    return pa.table([_column(table, name) for name in columns], names=list(columns))


def with_fields(table: pa.Table, columns: Iterable[str]) -> pa.Table:
    """Returns a table in memory with further columns: those of `columns` that are fields `a.b` of its structs."""
    found = {*columns_of_schema(table.schema)} - {*table.column_names}
    for name in found.intersection(columns):
        table = table.append_column(name, _column(table, name))
    return table


def _names(name: str, kind: pa.DataType) -> Iterator[str]:
    yield name
    kind = kind.value_type if is_list(kind) else kind
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _names(f"{name}.{kind[i].name}", kind[i].type)


def _root(name: str, present: set[str]) -> str:
    """Returns the longest column name that is a prefix of a dotted name."""
    parts = name.split(".")
    prefixes = (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
    return next(prefix for prefix in prefixes if prefix in present)


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if table.schema.get_all_field_indices(name):
        return table.column(name)
    root = _root(name, set(table.column_names))
    column, rest = table.column(root), name[len(root) + 1 :]
    while rest:
        struct = column.type.value_type if is_list(column.type) else column.type
        fields = [struct[i].name for i in range(struct.num_fields)]
        field = next(f for f in sorted(fields, key=len, reverse=True) if rest == f or rest.startswith(f"{f}."))
        column, rest = _field(column, fields.index(field)), rest[len(field) + 1 :]
    return column


def _field(column: pa.ChunkedArray, index: int) -> pa.ChunkedArray:
    if not is_list(column.type):
        return pc.struct_field(column, [index])
    fields = [lists_of_lengths(pc.struct_field(flatten(chunk), [index]), lengths_of(chunk)) for chunk in column.chunks]
    return pa.chunked_array(fields, pa.large_list(column.type.value_type[index].type))


def without_extensions(table: pa.Table) -> pa.Table:
    """Returns a table whose columns of extension types are their storage; periods of pandas are when they begin.

    The classes of `pandas.cut` are intervals: they are texts, as in the CSV files of pandas: `(0, 1]`.
    """
    for i, field in enumerate(table.schema):
        values = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if isinstance(values, pa.BaseExtensionType):
            stored = [_stored(chunk) for chunk in table.column(i).chunks]
            table = table.set_column(i, field.name, stored or pa.nulls(0))
    return table


def _stored(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        classes = column.dictionary
        of_cut = classes.type.extension_name == "pandas.interval"
        texts = pa.array([str(one) for one in classes.to_pandas()], pa.string()) if of_cut else _stored(classes)
        return pa.DictionaryArray.from_arrays(column.indices, texts)
    if column.type.extension_name == "pandas.period":  # stored as the number of periods since 1970
        return pa.array(pa.table({"": column}).to_pandas()[""].dt.to_timestamp())
    return column.storage


def validated(table: pa.Table) -> pa.Table:
    """Returns a table without extensions whose text is valid UTF-8. Strings with invalid UTF-8 become binary.

    Raises:
        pa.ArrowInvalid: Offsets or sizes contradict each other, as in a damaged file.
    """
    columns = [_validated(column) for column in without_extensions(table).columns]
    return pa.table(columns, names=table.column_names) if table.num_columns else table


def _validated(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        column = column.cast(_bytes_for_text(column.type))
        column.validate(full=True)
    return column


def _bytes_for_text(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _bytes_for_text(kind.value_type)
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_bytes_for_text(kind.value_type), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return (pa.list_ if pa.types.is_list(kind) else pa.large_list)(_bytes_for_text(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_bytes_for_text(field.type)) for field in kind])
    return kind


def rows_of_tables(tables: Iterable[pa.Table], first: int, reading: Reading) -> Iterator[Rows]:
    """Yields the columns that `reading` needs of tables; the rows are numbered from `first`."""
    for table in map(validated, tables):
        yield numbered(only_columns(table, list(reading.columns)), first, table if reading.all_columns else None)
        first += table.num_rows


def _runs(sizes: Sequence[tuple[int, int]]) -> list[FilePart]:
    """Returns runs of groups of about `PART_BYTES`, given the rows and bytes of each group."""
    parts: list[FilePart] = []
    begin, first, rows, run_bytes = 0, 1, 0, 0
    for i, (group_rows, group_bytes) in enumerate(sizes):
        rows += group_rows
        run_bytes += group_bytes
        if run_bytes >= PART_BYTES or i == len(sizes) - 1:
            parts.append(FilePart(begin, i + 1, first))
            begin, first, rows, run_bytes = i + 1, first + rows, 0, 0
    return parts


def _open(path: str) -> Any:
    return open_raw(path) if is_address(path) else pa.OSFile(path)
