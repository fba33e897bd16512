"""Samples rows of a source: reads them like the run, from all parts of the files, within a byte budget."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.readers.csv_records import one_record_per_line
from fullpass.components.ingest.readers.open_source import IN_NATIVE_CODE, parts_of, read, run_in_fork_if_native
from fullpass.components.ingest.readers.reader import WHOLE, BadRow, FilePart, Reading
from fullpass.components.ingest.sources.source_config import CsvSource, JsonLinesSource, Source, TfRecordSource
from fullpass.components.ingest.sources.source_files import SourceFile
from fullpass.components.ingest.sources.storage import is_compressed, open_binary, open_raw
from fullpass.components.ingest.splitting.assign_split import assign, raw_split_columns
from fullpass.pipeline.authoring.profile.image_cells import image_shapes, image_texts
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.convert import as_declared, to_text
from fullpass.preprocessing.values.list_values import flatten, is_list, lengths_of, without_inner_lists

_BUDGET = {"csv": 64 << 20, "parquet": 64 << 20, "arrow": 64 << 20, "orc": 64 << 20}
_SLOW_BUDGET = 16 << 20
_MOST_ROWS = 1_000_000
_MOST_FILES = 16
_PIECES = 16
_LOOK = 4 << 20
_LONGEST_LINE = 64 << 20
_ONE_BYTE_LINE_ENDS = ("utf-8", "cp1252", "latin-1", "ascii", "cp1251")


@dataclass(frozen=True)
class Sample:
    """Rows of a source.

    Attributes:
        columns: name -> text, or lists as read, of the sampled rows.
        seen_columns: name -> text, or lists as read, of all rows seen.
        numbers: name -> text of the numbers that the run reads in the sampled rows, for declared numbers.
        seen_numbers: the same, of all rows seen.
        refused: name -> why the run refuses the type of a declared column.
        unreadable: name -> Arrow type of columns that are neither text nor lists.
        images: name -> height, width and channels of some images, for columns that hold encoded images.
        splits: split -> bool [rows], for sources with data per split.
        all_splits: split -> bool [seen], for sources with data per split.
        seen: number of rows that were read and from which the sample was drawn.
        malformed: number of rows that could not be read.
        bad: the first of the malformed rows.
        whole: whether every row of the source was seen.
        evenly_spread: whether rows come from every part of the files, not only from their beginning.
        total: number of rows of the whole source, estimated from bytes; None if unknown.
    """

    columns: Mapping[str, pa.Array]
    seen_columns: Mapping[str, pa.Array]
    numbers: Mapping[str, pa.Array]
    seen_numbers: Mapping[str, pa.Array]
    refused: Mapping[str, str]
    unreadable: Mapping[str, str]
    images: Mapping[str, Sequence[tuple[int, int, int]]]
    splits: Mapping[str, np.ndarray]
    all_splits: Mapping[str, np.ndarray]
    seen: int
    malformed: int
    bad: tuple[BadRow, ...]
    whole: bool
    evenly_spread: bool
    total: int | None

    @property
    def rows(self) -> int:
        """Rows in the sample."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


@dataclass(frozen=True)
class _Piece:
    """The rows read from one file.

    Attributes:
        chunks: name -> one array per batch.
        numbers: the same, for declared numbers, as text of the numbers that the run reads.
        refused: name -> why the run refuses the type of a declared column.
        images: name -> shapes of some images.
        total: number of rows of the file; None if unknown.
    """

    file: SourceFile
    chunks: Mapping[str, list[pa.Array]]
    numbers: Mapping[str, list[pa.Array]]
    refused: Mapping[str, str]
    images: Mapping[str, list[tuple[int, int, int]]]
    rows: int
    malformed: int
    bad: tuple[BadRow, ...]
    whole: bool
    evenly_spread: bool
    total: int | None


def read_sample(
    files: Sequence[SourceFile],
    source: Source,
    columns: Sequence[str],
    *,
    rows: int | None,
    images: Collection[str] | None = None,
    declared: Mapping[str, RawColumn] | None = None,
) -> Sample:
    """Returns up to `rows` rows (None for all that the budget allows), drawn uniformly from the rows that are read.

    A source within the budget (64 MB; 16 MB for formats that are slow to read) is read completely. From a larger one,
    up to 16 files are read. A large file that can be cut is read in pieces from all its parts. A part of a Parquet,
    Arrow or ORC file with too many rows is read completely, and only some of its batches are kept. Columns of encoded
    `images` become the texts of `image_texts`; None detects these columns by their content. Types of
    `declared` columns are judged, and their numbers read, as the run does.

    Raises:
        UserError: A file is empty, lacks a column, or does not have its declared format.
    """
    budget = _BUDGET.get(source.format, _SLOW_BUDGET)
    within = sum(file.size for file in files) <= budget
    chosen = list(files) if within else _spread([file for file in files if file.size], _MOST_FILES)
    limits = budget // len(chosen), _MOST_ROWS // len(chosen)
    pieces = run_in_fork_if_native(
        source, lambda: [_read(f, source, columns, images, declared or {}, *limits) for f in chosen]
    )
    total = sum(piece.rows for piece in pieces)
    picked = _picked(total, rows)
    owner = np.repeat(np.arange(len(pieces)), [piece.rows for piece in pieces])
    files_read = [piece.file for piece in pieces]
    found = {name: _concat([chunk for piece in pieces for chunk in piece.chunks[name]]) for name in columns}
    in_lists = isinstance(source, TfRecordSource)
    listed = {name: _as_list(array) for name, array in found.items()}
    arrays = {name: _sole_values(array, source) if in_lists else array for name, array in listed.items()}
    usable = {
        name: array for name, array in arrays.items() if pa.types.is_string(array.type) or pa.types.is_list(array.type)
    }
    numbers = {
        name: _concat([chunk for piece in pieces for chunk in piece.numbers[name]])
        for name in pieces[0].numbers
        if name in usable and pa.types.is_string(usable[name].type) and not in_lists
    }
    return Sample(
        columns={name: array.take(pa.array(picked)) for name, array in usable.items()},
        seen_columns=usable,
        numbers={name: array.take(pa.array(picked)) for name, array in numbers.items()},
        seen_numbers=numbers,
        refused={name: why for piece in reversed(pieces) for name, why in piece.refused.items()},
        unreadable={name: str(array.type) for name, array in arrays.items() if name not in usable},
        images={name: shapes for piece in reversed(pieces) for name, shapes in piece.images.items()},
        splits=_splits(files_read, owner[picked]),
        all_splits=_splits(files_read, owner),
        seen=total,
        malformed=sum(piece.malformed for piece in pieces),
        bad=tuple(row for piece in pieces for row in piece.bad[:100]),
        whole=within and all(piece.whole for piece in pieces),
        evenly_spread=all(piece.evenly_spread for piece in pieces),
        total=_total(pieces, sum(file.size for file in files)),
    )


def _total(pieces: Sequence[_Piece], size: int) -> int | None:
    """Returns the row count of a source of `size` bytes, estimated from bytes for unread files; None if unknown."""
    known = [piece.total for piece in pieces if piece.total is not None]
    read = sum(piece.file.size for piece in pieces)
    if len(known) < len(pieces):
        return None
    return sum(known) if read == size else round(sum(known) * size / read)


def row_keys(sample: Sample, columns: Sequence[str]) -> pa.Array:
    """Returns one text per row seen, joined from the columns that hold text or lists of single values."""
    arrays = [sample.seen_columns[name] for name in columns if name in sample.seen_columns]
    filled = [pc.fill_null(_joined(array), "\0") for array in arrays if not _is_nested_list(array.type)]
    return pc.binary_join_element_wise(*filled, "\x1f") if filled else pa.array([], pa.string())


def _is_nested_list(kind: pa.DataType) -> bool:
    return is_list(kind) and pa.types.is_nested(kind.value_type)


def _joined(array: pa.Array) -> pa.Array:
    """Returns lists as text; a list with a missing element counts as a missing list."""
    if not is_list(array.type):
        return array
    inner = to_text(flatten(array), strip=False, missing=())[0]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths_of(array))]).astype(np.int32))
    return pc.binary_join(pa.ListArray.from_arrays(offsets, inner), "\x1e")


def split_indices(data: DataConfig, sample: Sample) -> np.ndarray | None:
    """Returns the index of each sampled row's split among `data.split_names`, int [rows]; NO_SPLIT for none.

    None if the split reads a column that is not in the sample.
    """
    if sample.splits:
        given = [sample.splits.get(name, np.zeros(sample.rows, dtype=bool)) for name in data.split_names]
        return np.argmax(np.stack(given), axis=0)
    texts = {name: array for name, array in sample.columns.items() if pa.types.is_string(array.type)}
    if not texts or any(column not in texts for column in raw_split_columns(data.split)):
        return None
    return assign(data.split, pa.table(dict(sample.columns)), np.arange(sample.rows, dtype=np.int64), file_index=0)


def _spread(items: Sequence, most: int) -> list:
    """Returns at most `most` items: the first, the last and evenly spaced ones between."""
    indices = np.unique(np.linspace(0, len(items) - 1, num=min(most, len(items))).round().astype(int))
    return [items[index] for index in indices]


def _picked(total: int, rows: int | None) -> np.ndarray:
    if rows is None or total <= rows:
        return np.arange(total)
    return np.sort(np.random.default_rng(1).choice(total, size=rows, replace=False))


def _splits(files: Sequence[SourceFile], owner: np.ndarray) -> dict[str, np.ndarray]:
    names = dict.fromkeys(file.split for file in files if file.split is not None)
    return {name: np.isin(owner, [i for i, f in enumerate(files) if f.split == name]) for name in names}


def _concat(chunks: Sequence[pa.Array]) -> pa.Array:
    """Returns chunks as one array; as text if their types differ, such as lists in one batch and text in another."""
    kinds = {chunk.type for chunk in chunks if not pa.types.is_null(chunk.type)} or {pa.string()}
    if len(kinds) > 1:
        chunks = [pa.array([None if v is None else str(v) for v in c.to_pylist()], pa.string()) for c in chunks]
        return pa.concat_arrays(chunks)
    kind = kinds.pop()
    return pa.concat_arrays([chunk.cast(kind) for chunk in chunks]) if chunks else pa.array([], kind)


def _as_list(array: pa.Array) -> pa.Array:
    """Returns lists of any Arrow list type as one list type, and lists of one-element lists as lists."""
    if not is_list(array.type):
        return array
    single, several = without_inner_lists(array, lengths_of(array))
    array = array if several.any() else single
    return array.cast(pa.list_(array.type.value_type))


def _sole_values(array: pa.Array, source: Source) -> pa.Array:
    """Returns lists of at most one value each as single values, since a tf.Example holds only lists."""
    if not pa.types.is_list(array.type) or pc.max(pc.list_value_length(array)).as_py() != 1:
        return array
    rows = np.cumsum(pc.fill_null(pc.list_value_length(array), 0).to_numpy()) - 1
    is_missing = pc.not_equal(pc.fill_null(pc.list_value_length(array), 0), 1)
    return _as_text(array.flatten().take(pc.if_else(is_missing, None, pa.array(rows))), source)


def _as_text(array: pa.Array, source: Source) -> pa.Array:
    """Returns a column as the text that ingest reads; unchanged if ingest cannot read it or most cells are no text."""
    if pa.types.is_nested(array.type) or pa.types.is_null(array.type):
        return array
    try:
        text, undecodable = to_text(array, strip=source.raw_text.strip, missing=())
    except pa.ArrowException:
        return array
    return array if undecodable.sum() > len(text) - text.null_count else text


def _as_numbers(cells: pa.Array, text: pa.Array, raw: RawColumn, source: Source) -> pa.Array:
    """Returns the numbers that the run reads from a batch as text; `text` is the batch as text.

    Raises:
        UserError: The run refuses the type.
    """
    if is_list(cells.type) or pa.types.is_null(cells.type):
        return text
    numbers = as_declared(cells, raw)
    return text if numbers.type == cells.type else _as_text(numbers, source)


def _read(
    file: SourceFile,
    source: Source,
    columns: Sequence[str],
    images: Collection[str] | None,
    declared: Mapping[str, RawColumn],
    budget: int,
    rows: int,
) -> _Piece:
    """Reads a file, or parts of it, until its bytes in memory or its rows exceed the budget."""
    cut = _cut(file, source, budget)
    parts = cut.parts if cut else [WHOLE]
    chunks: dict[str, list[pa.Array]] = {name: [] for name in columns}
    numbers = {name: list[pa.Array]() for name in columns if name in declared and declared[name].type == "number"}
    refused: dict[str, str] = {}
    found: dict[str, list[tuple[int, int, int]]] = {}
    malformed = total = 0
    bad: list[BadRow] = []
    whole = True
    passed = 0
    for part in parts:
        reading = Reading(file, {name: RawColumn(name, "string") for name in columns}, part)
        kept = _KeptBatches(
            2 * budget // len(parts), -(-rows // len(parts)), subsample=isinstance(source, IN_NATIVE_CODE)
        )
        for batch in read(reading, source):
            kept.add(batch.table)
            if kept.is_full:
                break
        for table in kept.tables:
            for name in columns:
                cells = table.column(name).combine_chunks()
                if images is None and (shapes := image_shapes(cells)):
                    found.setdefault(name, shapes)
                is_image = name in (found if images is None else images)
                chunks[name].append(image_texts(cells) if is_image else _as_text(cells, source))
                raw = declared.get(name)
                if raw is None or raw.type == "vector" or is_image:
                    continue
                try:
                    read_as = _as_numbers(cells, chunks[name][-1], raw, source)
                except UserError as error:
                    refused.setdefault(name, str(error))
                    read_as = chunks[name][-1]
                if name in numbers:
                    numbers[name].append(read_as)
        whole = whole and not kept.is_full
        passed, total = passed + kept.passed, total + kept.rows
        malformed, bad = malformed + reading.malformed, bad + reading.bad
    in_file = cut.rows or (round(passed / cut.share) if whole else None) if cut else passed if whole else None
    is_all = whole and not cut and total == passed
    return _Piece(
        file, chunks, numbers, refused, found, total, malformed, tuple(bad), is_all, whole or bool(cut), in_file
    )


class _KeptBatches:
    """The batches kept from a part, limited in bytes and rows.

    With `subsample`, the whole part is read; whenever the kept batches exceed a limit, every second of them is dropped.
    Without it, the part is read only until a limit is reached.
    """

    def __init__(self, most_bytes: int, most_rows: int, *, subsample: bool):
        self.tables: list[pa.Table] = []
        self.passed = 0
        self._most_bytes, self._most_rows, self._subsample = most_bytes, most_rows, subsample
        self._stride, self._batches = 1, 0

    @property
    def rows(self) -> int:
        """Number of kept rows."""
        return sum(table.num_rows for table in self.tables)

    @property
    def is_full(self) -> bool:
        """Whether reading can stop."""
        return not self._subsample and self._is_over(self._most_rows - 1)

    def add(self, table: pa.Table) -> None:
        """Adds a batch; keeps it if the stride selects it."""
        self._batches, self.passed = self._batches + 1, self.passed + table.num_rows
        if (self._batches - 1) % self._stride == 0:
            self.tables.append(table)
        while self._subsample and len(self.tables) > 1 and self._is_over(self._most_rows):
            self.tables, self._stride = self.tables[::2], 2 * self._stride

    def _is_over(self, most_rows: int) -> bool:
        return self.rows > most_rows or sum(table.nbytes for table in self.tables) > self._most_bytes


@dataclass(frozen=True)
class _Cut:
    """Parts spread over a file, and either their share of the file or the number of rows of the whole file."""

    parts: list[FilePart]
    share: float = 1.0
    rows: int | None = None


def _cut(file: SourceFile, source: Source, budget: int) -> _Cut | None:
    """Returns parts of a file that exceeds the budget; None if it does not, or if it cannot be cut."""
    if file.size <= budget:
        return None
    if isinstance(source, IN_NATIVE_CODE):
        parts = parts_of(file, source)
        chosen = _spread(parts, _PIECES)
        return _Cut(chosen, share=len(chosen) / len(parts))
    if isinstance(source, CsvSource | JsonLinesSource) and _ends_rows_with_lines(file.path, source):
        return _cut_lines(file, budget // _PIECES)
    return None


def _ends_rows_with_lines(path: str, source: CsvSource | JsonLinesSource) -> bool:
    """Returns whether every line end of the file ends a row, judged by its first megabytes."""
    if is_compressed(path):
        return False
    if not isinstance(source, CsvSource) or not source.quoting:
        return True
    if source.encoding.lower() not in _ONE_BYTE_LINE_ENDS:
        return False
    with open_binary(path) as file:
        return one_record_per_line(file.read(_LOOK).rpartition(b"\n")[0] + b"\n", source.separator)


def _cut_lines(file: SourceFile, size: int) -> _Cut:
    """Returns evenly spaced ranges of complete lines of a file; the first begins at its start."""
    parts: list[FilePart] = []
    lines = looked_at = 0
    with open_raw(file.path) as stream:
        for start in np.linspace(0, file.size - size, num=_PIECES).astype(int).tolist():
            stream.seek(start)
            begin = start + len(stream.readline(_LONGEST_LINE)) if start else 0
            piece = stream.read(max(start + size - begin, 0)) + stream.readline(_LONGEST_LINE)
            if piece and (not parts or begin >= parts[-1].end):
                parts.append(FilePart(begin, begin + len(piece)))
                lines, looked_at = lines + piece.count(b"\n"), looked_at + len(piece)
    return _Cut(parts, rows=round(file.size * lines / looked_at))
