"""Samples rows of a source: reads them like the run, from all parts of the files, within a byte budget."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.readers.csv_records import one_record_per_line
from fullpass.components.ingest.readers.read_source import parts_of, read_rows, run_in_fork_if_native
from fullpass.components.ingest.readers.rows import WHOLE, BadRow, FilePart, Reading
from fullpass.components.ingest.sources.config import CsvSource
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.sources.formats import FORMATS, Source
from fullpass.components.ingest.sources.storage import is_compressed, open_binary, open_raw
from fullpass.components.ingest.splitting.assign import assign, raw_split_columns
from fullpass.pipeline.authoring.profile.images import Size, image_sizes, image_texts
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts, count_values
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.arrow_text import as_mask, joined_rows, null_where
from fullpass.preprocessing.values.convert import as_declared, numbers_of, to_text
from fullpass.preprocessing.values.list_values import (
    flatten,
    is_list,
    lengths_of,
    lists_of_lengths,
    without_inner_lists,
)

_MOST_ROWS = 1_000_000
_MOST_FILES, _MOST_PARTS, _FEWEST_PARTS = 16, 16, 2
_MOST_ARRAYS = 50_000
_LOOK = 4 << 20
_LONGEST_LINE = 64 << 20
_ONE_BYTE_LINE_ENDS = ("utf-8", "cp1252", "latin-1", "ascii", "cp1251")


@dataclass(frozen=True)
class Sample:
    """Rows of a source.

    Attributes:
        seen_columns: Name -> text, or lists as read, of all rows seen.
        seen_numbers: Name -> text of the numbers that the run reads, for declared numbers that it reads otherwise.
        picked: Indices of the sampled rows among the rows seen.
        refused: Name -> why the run refuses the type of a declared column.
        unreadable: Name -> Arrow type of columns that are neither text nor lists.
        images: Name -> sizes of some images, for columns that hold encoded images.
        all_splits: Split -> bool [seen], for sources with data per split.
        seen: Number of rows that were read and from which the sample was drawn.
        malformed: Number of rows that could not be read.
        whole: Whether every row of the source was seen.
        evenly_spread: Whether rows come from every part of the files, not only from their beginning.
        total: Number of rows of the whole source; None if unknown.
        total_is_counted: Whether `total` is counted; else it is estimated from bytes.
    """

    seen_columns: Mapping[str, pa.Array]
    seen_numbers: Mapping[str, pa.Array]
    picked: pa.Array
    refused: Mapping[str, str]
    unreadable: Mapping[str, str]
    images: Mapping[str, Sequence[Size]]
    all_splits: Mapping[str, np.ndarray]
    seen: int
    malformed: int
    bad: tuple[BadRow, ...]
    whole: bool
    evenly_spread: bool
    total: int | None
    total_is_counted: bool = False

    @property
    def of_rows(self) -> str:
        """The number of rows from which the sample is, for people: of all, of about all, or of the first ones."""
        if self.whole or not self.evenly_spread:
            return f"{self.seen:,}" if self.whole else f"the first {self.seen:,}"
        if self.total is None:
            return "many"
        return f"{self.total:,}" if self.total_is_counted else f"about {self.total:,}"

    def where(self, kept: np.ndarray, rows: int) -> "Sample":
        """Returns a sample of at most `rows` rows of those that are kept, bool [seen]."""
        mask, seen = pa.array(kept), int(kept.sum())
        return replace(
            self,
            seen_columns={name: array.filter(mask) for name, array in self.seen_columns.items()},
            seen_numbers={name: array.filter(mask) for name, array in self.seen_numbers.items()},
            picked=pa.array(_picked(seen, rows)),
            all_splits={name: chosen[kept] for name, chosen in self.all_splits.items()},
            seen=seen,
            total=None if self.total is None else round(self.total * seen / max(self.seen, 1)),
            total_is_counted=False,
        )

    @property
    def rows(self) -> int:
        """Rows in the sample."""
        return len(self.picked) if self.seen_columns else 0

    @property
    def has_all_seen(self) -> bool:
        """Whether every row that was seen is in the sample."""
        return len(self.picked) == self.seen

    def is_counted(self, missing: tuple[str, ...]) -> bool:
        """Returns whether value counts have the number of every row seen, given the tokens for missing.

        They have not if rows are left out of the sample, or if a token is a number: then it is missing in any spelling,
        and counts leave out that of the token only.
        """
        return self.has_all_seen and not numbers_of(missing)

    @property
    def bad_share(self) -> float:
        """The share of rows that could not be read."""
        return self.malformed / max(self.seen + self.malformed, 1)

    @cached_property
    def columns(self) -> Mapping[str, pa.Array]:
        """Name -> text, or lists as read, of the sampled rows."""
        return self._sampled(self.seen_columns)

    @cached_property
    def numbers(self) -> Mapping[str, pa.Array]:
        """`seen_numbers` of the sampled rows."""
        return self._sampled(self.seen_numbers)

    @cached_property
    def counts(self) -> Mapping[str, ValueCounts]:
        """Name -> value counts of the sampled rows, for columns of text."""
        texts = {name: array for name, array in self.columns.items() if pa.types.is_string(array.type)}
        return {name: count_values(array) for name, array in texts.items()}

    def _sampled(self, arrays: Mapping[str, pa.Array]) -> Mapping[str, pa.Array]:
        return arrays if self.has_all_seen else {name: array.take(self.picked) for name, array in arrays.items()}

    @cached_property
    def splits(self) -> Mapping[str, np.ndarray]:
        """`all_splits` of the sampled rows."""
        return {name: chosen[self.picked.to_numpy()] for name, chosen in self.all_splits.items()}


@dataclass
class _ColumnCells:
    """What is kept of one column of a file.

    Attributes:
        arrays: Text or lists, one array per run of batches of equal types.
        numbers: Text of the numbers that the run reads, one array beside each of `arrays`, of a declared number.
    """

    arrays: list[pa.Array] = field(default_factory=list)
    numbers: list[pa.Array] = field(default_factory=list)
    images: list[Size] = field(default_factory=list)
    refused: str = ""


@dataclass(frozen=True)
class _FileSample:
    """The rows read from one file; `total` is its number of rows, counted or estimated, None if unknown."""

    file: SourceFile
    cells: Mapping[str, _ColumnCells]
    rows: int
    malformed: int
    bad: tuple[BadRow, ...]
    whole: bool
    evenly_spread: bool
    total: int | None
    is_counted: bool


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

    A source within the budget (64 MB; 16 MB for formats that are slow to read) is read completely, and of too many rows
    only some batches are kept. From a larger one,
    up to 16 files are read. A large file that can be cut is read in parts from all over it, a wide one in fewer. A part
    of a Parquet, Arrow or ORC file with too many rows is read completely, and only some of its batches are kept.
    Columns of encoded `images` become the texts of `image_texts`; None detects these columns by their content. Types of
    `declared` columns are judged, and their numbers read, as the run does.

    Raises:
        UserError: A file is empty, lacks a column, or does not have its declared format.
    """
    budget = FORMATS[source.format].sampled_bytes
    size = sum(file.size for file in files)
    chosen = list(files) if size <= budget else _spread([file for file in files if file.size], _MOST_FILES)
    # A column of a part takes the time of thousands of its values.
    parts = int(np.clip(_MOST_ARRAYS // (len(chosen) * max(len(columns), 1)), _FEWEST_PARTS, _MOST_PARTS))
    limits = parts, budget // len(chosen), _MOST_ROWS // len(chosen)
    found = run_in_fork_if_native(
        source, lambda: [_read(f, source, columns, images, declared or {}, *limits) for f in chosen]
    )
    seen = sum(one.rows for one in found)
    owner = np.repeat(np.arange(len(found)), [one.rows for one in found])
    of_column = {name: [one.cells[name] for one in found] for name in columns}
    arrays = {name: _one_array([a for c in of for a in c.arrays], source) for name, of in of_column.items()}
    usable = {n: array for n, array in arrays.items() if pa.types.is_string(array.type) or pa.types.is_list(array.type)}
    numbers = {
        name: _concat([array for cells in of_column[name] for array in cells.numbers])
        for name, array in usable.items()
        if pa.types.is_string(array.type)
        and any(n is not t for cells in of_column[name] for n, t in zip(cells.numbers, cells.arrays, strict=False))
        and not FORMATS[source.format].in_lists
    }
    return Sample(
        seen_columns=usable,
        seen_numbers=numbers,
        picked=pa.array(_picked(seen, rows)),
        refused={n: why for n, of in of_column.items() if (why := next((c.refused for c in of if c.refused), ""))},
        unreadable={name: str(array.type) for name, array in arrays.items() if name not in usable},
        images={n: sizes for n, of in of_column.items() if (sizes := next((c.images for c in of if c.images), []))},
        all_splits=_splits([one.file for one in found], owner),
        seen=seen,
        malformed=sum(one.malformed for one in found),
        bad=tuple(row for one in found for row in one.bad[:100]),
        whole=size <= budget and all(one.whole for one in found),
        evenly_spread=all(one.evenly_spread for one in found),
        total=_total(found, size),
        total_is_counted=sum(one.file.size for one in found) == size and all(one.is_counted for one in found),
    )


def _total(found: Sequence[_FileSample], size: int) -> int | None:
    """Returns the row count of a source of `size` bytes, estimated from bytes for unread files; None if unknown."""
    known = [one.total for one in found if one.total is not None]
    read_bytes = sum(one.file.size for one in found)
    if len(known) < len(found):
        return None
    return sum(known) if read_bytes == size else round(sum(known) * size / read_bytes)


def row_keys(sample: Sample, columns: Sequence[str]) -> pa.Array:
    """Returns one text per row seen, joined from the columns that hold text or lists of single values."""
    arrays = [sample.seen_columns[name] for name in columns if name in sample.seen_columns]
    single = [array for array in arrays if not (is_list(array.type) and pa.types.is_nested(array.type.value_type))]
    return joined_rows([_joined(array) for array in single], "\x1f", null="\0") if single else pa.array([], pa.string())


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
    numbers = np.arange(sample.rows, dtype=np.int64)
    return assign(data.split, pa.table(dict(sample.columns)), numbers, file_index=0, text=data.source.raw_text)


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


def _one_array(arrays: Sequence[pa.Array], source: Source) -> pa.Array:
    """Returns the batches of a column as text, or as lists of one Arrow type."""
    array = _concat(arrays)
    if not is_list(array.type):
        return array
    single, several = without_inner_lists(array, lengths_of(array))
    array = array if several.any() else single
    # Arrow does not cast lists of a fixed size.
    variable = lists_of_lengths(flatten(array), lengths_of(array), as_mask(array.is_null()))
    array = variable.cast(pa.list_(array.type.value_type))
    return _sole_values(array, source) if FORMATS[source.format].in_lists else array


def _concat(arrays: Sequence[pa.Array]) -> pa.Array:
    """Returns arrays as one; as text if their types differ, such as lists in one batch and text in another."""
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)} or {pa.string()}
    if len(kinds) > 1:
        texts = [pa.array([None if v is None else str(v) for v in a.to_pylist()], pa.string()) for a in arrays]
        return pa.concat_arrays(texts)
    kind = kinds.pop()
    alike = [array if array.type == kind else array.cast(kind) for array in arrays] or [pa.array([], kind)]
    return alike[0] if len(alike) == 1 else pa.concat_arrays(alike)


def _sole_values(array: pa.Array, source: Source) -> pa.Array:
    """Returns lists of at most one value each as single values, since a tf.Example holds only lists."""
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    if pc.max(lengths).as_py() != 1:
        return array
    rows = pa.array(np.cumsum(lengths.to_numpy()) - 1)
    return _as_text(array.flatten().take(null_where(pc.not_equal(lengths, 1), rows)), source.raw_text.strip)


def _as_text(array: pa.Array, strip: bool) -> pa.Array:
    """Returns a column as the text that ingest reads; unchanged if ingest cannot read it or most cells are no text."""
    if pa.types.is_nested(array.type) or pa.types.is_null(array.type):
        return array
    try:
        text, undecodable = to_text(array, strip=strip, missing=())
    except pa.ArrowException:
        return array
    return array if undecodable.sum() > len(text) - text.null_count else text


def _read(
    file: SourceFile,
    source: Source,
    columns: Sequence[str],
    images: Collection[str] | None,
    declared: Mapping[str, RawColumn],
    most_parts: int,
    budget: int,
    rows: int,
) -> _FileSample:
    """Reads a file, or parts of it, until its bytes in memory or its rows exceed the budget."""
    cut, strip = _cut(file, source, budget, most_parts), source.raw_text.strip
    parts = cut.parts if cut else [WHOLE]
    cells = {name: _ColumnCells() for name in columns}
    malformed = total = passed = 0
    bad: list[BadRow] = []
    whole = True
    form, small = FORMATS[source.format], cut is None and file.size <= budget
    subsample = form.native or (small and form.cut_at_lines and not is_compressed(file.path))
    for part in parts:
        reading = Reading(file, {name: RawColumn(name, "string") for name in columns}, part)
        kept = _KeptBatches(2 * budget // len(parts), -(-rows // len(parts)), subsample=subsample)
        for batch in read_rows(reading, source):
            kept.add(batch.table)
            if kept.is_full:
                break
        # An array takes the time of thousands of its values, so batches of equal types become one.
        for _, alike in groupby(kept.tables, key=lambda table: table.schema):
            table = pa.concat_tables(alike)
            for name, column in zip(table.column_names, table.columns, strict=True):
                array = column.combine_chunks()
                if images is None and not cells[name].images:
                    cells[name].images = image_sizes(array)
                if cells[name].images or name in (images or ()):
                    cells[name].arrays.append(image_texts(array))
                else:
                    _add(cells[name], array, declared.get(name), strip)
        whole = whole and not kept.is_full
        passed, total = passed + kept.passed, total + kept.rows
        malformed, bad = malformed + reading.malformed, bad + reading.bad
    rows_of_file = cut.rows or (round(passed / cut.share) if whole else None) if cut else passed if whole else None
    is_all = whole and not cut and total == passed
    counted = whole and not cut
    return _FileSample(file, cells, total, malformed, tuple(bad), is_all, whole or bool(cut), rows_of_file, counted)


def _add(cells: _ColumnCells, array: pa.Array, raw: RawColumn | None, strip: bool) -> None:
    """Adds an array as text, and for a declared number the text of the numbers that the run reads."""
    text = _as_text(array, strip)
    cells.arrays.append(text)
    if raw is None or raw.type == "vector":
        return
    numbers = text
    if not is_list(array.type) and not pa.types.is_null(array.type):
        try:
            as_read = as_declared(array, raw)
            numbers = text if as_read.type == array.type else _as_text(as_read, strip)
        except UserError as error:
            cells.refused = cells.refused or str(error)
    if raw.type == "number":
        cells.numbers.append(numbers)


class _KeptBatches:
    """The batches kept from a part, limited in bytes and rows.

    With `subsample`, the whole part is read; whenever the kept batches exceed a limit, every second of them is dropped.
    Without it, the part is read only until a limit is reached.
    """

    def __init__(self, most_bytes: int, most_rows: int, *, subsample: bool):
        self.tables: list[pa.Table] = []
        self.passed = self._bytes = 0
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
            self._bytes += table.nbytes
        while self._subsample and len(self.tables) > 1 and self._is_over(self._most_rows):
            self.tables, self._stride = self.tables[::2], 2 * self._stride
            self._bytes = sum(kept.nbytes for kept in self.tables)

    def _is_over(self, most_rows: int) -> bool:
        return self.rows > most_rows or self._bytes > self._most_bytes


@dataclass(frozen=True)
class _Cut:
    """Parts spread over a file, and either their share of the file or the number of rows of the whole file."""

    parts: list[FilePart]
    share: float = 1.0
    rows: int | None = None


def _cut(file: SourceFile, source: Source, budget: int, most_parts: int) -> _Cut | None:
    """Returns parts of a file that exceeds the budget; None if it does not, or if it cannot be cut."""
    if file.size <= budget:
        return None
    if FORMATS[source.format].native:
        parts = parts_of(file, source)
        chosen = _spread(parts, most_parts)
        return _Cut(chosen, share=len(chosen) / len(parts))
    if FORMATS[source.format].cut_at_lines and _ends_rows_with_lines(file.path, source):
        return _cut_lines(file, most_parts, budget // most_parts)
    return None


def _ends_rows_with_lines(path: str, source: Source) -> bool:
    """Returns whether every line end of the file ends a row, judged by its first megabytes."""
    if is_compressed(path):
        return False
    if not isinstance(source, CsvSource) or not source.quoting:
        return True
    if source.encoding.lower() not in _ONE_BYTE_LINE_ENDS:
        return False
    with open_binary(path) as file:
        return one_record_per_line(file.read(_LOOK).rpartition(b"\n")[0] + b"\n", source.separator)


def _cut_lines(file: SourceFile, count: int, size: int) -> _Cut:
    """Returns evenly spaced ranges of complete lines of a file, of about `size` bytes; the first is at its start."""
    parts: list[FilePart] = []
    lines = looked_at = 0
    with open_raw(file.path) as stream:
        for start in np.linspace(0, file.size - size, num=count).astype(int).tolist():
            stream.seek(start)
            begin = start + len(stream.readline(_LONGEST_LINE)) if start else 0
            text = stream.read(max(start + size - begin, 0)) + stream.readline(_LONGEST_LINE)
            if text and (not parts or begin >= parts[-1].end):
                parts.append(FilePart(begin, begin + len(text)))
                lines, looked_at = lines + text.count(b"\n"), looked_at + len(text)
    return _Cut(parts, rows=round(file.size * lines / looked_at))
