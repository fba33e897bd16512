"""Samples rows of a source: reads them like the run, from all parts of the files, within a byte budget."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.readers.read_source import run_in_fork_if_native
from fullpass.components.ingest.readers.rows import BadRow
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.sources.formats import FORMATS, Source
from fullpass.components.ingest.splitting.assign import assign, raw_split_columns
from fullpass.pipeline.authoring.profile.file_sample import FileSample, as_text, evenly_spaced, read_file_sample
from fullpass.pipeline.authoring.profile.images import Size
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts, count_values
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.arrow_text import as_mask, joined_rows, null_where
from fullpass.preprocessing.values.convert import numbers_of, to_text
from fullpass.preprocessing.values.list_values import (
    flatten,
    is_list,
    lengths_of,
    lists_of_lengths,
    without_inner_lists,
)

MOST_PARTED = 0.25
"""Share of rows above which a split by content, which parts them by their label, does harm: fewer are also rows of
rounded numbers, most of which have one label."""
_MOST_ROWS = 1_000_000
"""Rows that are kept before the sample is drawn: some hundred megabytes of a table of ten columns."""
_MOST_FILES = 16
"""Files that are read of a source beyond the budget."""
_MOST_PARTS = 16
"""Parts that are read of a large file, spread over it."""
_FEWEST_PARTS = 2
"""The same of a file of very many columns."""
_MOST_ARRAYS = 50_000
"""Arrays of Arrow in memory: a thousand columns of fifty parts take seconds."""
_MOST_BAD_ROWS = 100
"""Bad rows that are kept as examples, of each file."""


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
    def has_every_row(self) -> bool:
        """Whether no row of the source is left out."""
        return self.whole and self.rows == self.seen

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
    chosen = list(files) if size <= budget else evenly_spaced([file for file in files if file.size], _MOST_FILES)
    # A column of a part takes the time of thousands of its values.
    parts = int(np.clip(_MOST_ARRAYS // (len(chosen) * max(len(columns), 1)), _FEWEST_PARTS, _MOST_PARTS))
    limits = parts, budget // len(chosen), _MOST_ROWS // len(chosen)
    found = run_in_fork_if_native(
        source, lambda: [read_file_sample(f, source, columns, images, declared or {}, *limits) for f in chosen]
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
        bad=tuple(row for one in found for row in one.bad[:_MOST_BAD_ROWS]),
        whole=size <= budget and all(one.whole for one in found),
        evenly_spread=all(one.evenly_spread for one in found),
        total=_total(found, size),
        total_is_counted=sum(one.file.size for one in found) == size and all(one.is_counted for one in found),
    )


def _total(found: Sequence[FileSample], size: int) -> int | None:
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


def parted_by_label(sample: Sample, label: Collection[str]) -> float:
    """Returns the share of the rows that repeat, and that a split by content parts from rows with another label.

    It is 0 if a column is no text, such as an image, which may tell rows apart.

    All rows with the same values and the same label fall into one split then, and those with another label into
    another: what train learns of such values is the opposite of what eval holds.

    Args:
        label: The columns that the label reads and no feature.
    """
    others = [name for name in sample.seen_columns if name not in label]
    keys = [row_keys(sample, names) for names in (list(sample.seen_columns), others)]
    if sample.images or sample.unreadable or not all(map(len, keys)):
        return 0.0
    whole, rest = (key.dictionary_encode().indices.to_numpy() for key in keys)
    labels = np.bincount(rest[np.unique(whole, return_index=True)[1]])
    return float(((np.bincount(whole)[whole] > 1) & (labels[rest] > 1)).mean())


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
    return as_text(array.flatten().take(null_where(pc.not_equal(lengths, 1), rows)), source.raw_text.strip)
