"""The stratified split: a first pass counts the rows of each class, then every class is cut at the ratios.

The rows of a class are ordered by their content hash. The cuts give each split its rounded share of the class. The
first pass keeps only the hash at each cut: classes times splits numbers.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError, prefix_errors
from fullpass.components.ingest.config import StratifiedSplit
from fullpass.components.ingest.splitting.assign import HASHES
from fullpass.components.ingest.splitting.hash_runs import HashRun, RunWriter, read_ranges
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.arrow_text import to_text

MAX_CLASSES = 10_000
"""Classes whose rows and cuts are held in memory; more values are ids or numbers, of which no split has a share."""
_ROUNDING = 1e-9
"""Added before rounding, so that a share of half a row goes up whatever float64 makes of it."""
MISSING = ""
"""Class of rows whose column is missing; empty text is also missing, as for features."""

Cuts = Mapping[str, Sequence[int]]
"""Class -> for each split except the last, the first hash that belongs to a later split."""


class ClassWriter:
    """Writes the hash and the class of the rows of one part to files. prefix: common prefix of their paths."""

    def __init__(self, prefix: str):
        self.classes: dict[str, int] = {}
        self._runs = RunWriter(prefix)

    def write(self, classes: pa.Array, hashes: np.ndarray) -> None:
        """Appends rows: string [rows] and uint64 [rows]."""
        encoded = classes.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        check_classes(len(names))
        numbers = np.array([self.classes.setdefault(name, len(self.classes)) for name in names], dtype=np.int64)
        check_classes(len(self.classes))
        self._runs.write(hashes, numbers[encoded.indices.to_numpy(zero_copy_only=False)])

    def close(self) -> list[HashRun]:
        """Writes the pending rows, and returns all files."""
        self._runs.close()
        return self._runs.runs


def check_classes(count: int) -> None:
    """Raises UserError if a column has too many distinct values for a class column."""
    if count > MAX_CLASSES:
        raise UserError(
            f"data.split.column: more than {MAX_CLASSES:,} different values, so they are probably not classes. Name a "
            "column with fewer, derive one that puts them into groups (data.derive), or split by method: hash."
        )


def cuts_of(parts: Sequence[tuple[Sequence[str], Sequence[HashRun]]], split: StratifiedSplit) -> dict[str, list[int]]:
    """Returns the cuts of each class.

    Args:
        parts: For each part, its class names in the order of their numbers, and its files.
    """
    names = list(dict.fromkeys(name for classes, _ in parts for name in classes))
    check_classes(len(names))
    number = {name: i for i, name in enumerate(names)}
    of_part = [np.array([number[name] for name in classes], dtype=np.int64) for classes, _ in parts]
    rows = np.zeros(len(names), dtype=np.int64)
    for _, classes in _hashes_with_classes(parts, of_part):
        rows += np.bincount(classes, minlength=len(names))
    shares = np.cumsum(np.array(list(split.ratios.values())))[:-1] / sum(split.ratios.values())
    ranks = np.floor(rows[:, None] * shares + 0.5 + _ROUNDING).astype(np.int64)  # rows before each cut
    cuts = np.full(ranks.shape, HASHES, dtype=object)
    before = np.zeros(len(names), dtype=np.int64)
    for values, classes in _hashes_with_classes(parts, of_part):
        order = np.argsort(classes, kind="stable")  # stable: still sorted by hash within a class
        counts = np.bincount(classes, minlength=len(names))
        starts = np.cumsum(counts) - counts
        here = (ranks >= before[:, None]) & (ranks < (before + counts)[:, None])
        for name, cut in np.argwhere(here).tolist():
            position = starts[name] + ranks[name, cut] - before[name]
            cuts[name, cut] = int(values[order[position]])
        before += counts
    return {name: cuts[i].tolist() for i, name in enumerate(names)}


def _hashes_with_classes(
    parts: Sequence[tuple[Sequence[str], Sequence[HashRun]]], of_part: Sequence[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields hashes in increasing order with the numbers of their classes."""
    for found in read_ranges([runs for _, runs in parts]):
        values = np.concatenate([one["hash"] for one in found])
        classes = np.concatenate([of_part[i][one["what"]] for i, one in enumerate(found)])
        order = np.argsort(values, kind="stable")
        yield values[order], classes[order]


def splits_by_cuts(classes: pa.Array, hashes: np.ndarray, cuts: Cuts) -> np.ndarray:
    """Returns the index of each row's split, int64 [rows]."""
    encoded = classes.dictionary_encode()
    index = encoded.indices.to_numpy(zero_copy_only=False)
    split_of_row = np.zeros(len(hashes), dtype=np.int64)
    for i, name in enumerate(encoded.dictionary.to_pylist()):
        mine = index == i
        limits = [cut for cut in cuts.get(name, ()) if cut < HASHES]
        split_of_row[mine] = np.searchsorted(np.array(limits, dtype=np.uint64), hashes[mine], side="right")
    return split_of_row


def classes_of(
    name: str, arrays: Mapping[str, pa.Array], columns: Sequence[RawColumn], derive: Mapping[str, str]
) -> pa.Array:
    """Returns the class of each row, string [rows].

    Args:
        arrays: Raw columns, float32 or binary, null where missing.
        derive: Derived column -> expression; the inputs of `name` come before it.
    """
    if name not in derive:
        return _as_text(arrays[name])
    from fullpass.components.ingest.splitting.derived_batches import derived_column

    with prefix_errors(f"data.derive.{name}"):
        return _as_text(derived_column(name, arrays, columns, derive))


def _as_text(column: pa.Array) -> pa.Array:
    return to_text(column, strip=False, missing=(), tokens=True)[0].fill_null(MISSING)
