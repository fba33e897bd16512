"""Profiles a source: its format and the profile of each column."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.components.ingest.readers.read_source import columns_of_file, dictionary_columns
from fullpass.components.ingest.sources.config import CsvSource, ImagesSource, ParquetSource
from fullpass.pipeline.authoring.profile.column_profile import (
    ID_WORDS,
    ColumnProfile,
    profile_column,
    profile_list_column,
    shown,
    words_of,
)
from fullpass.pipeline.authoring.profile.detect_source import FoundSource, infer_source, path_from
from fullpass.pipeline.authoring.profile.images import FROM_IMAGE, find_named, manifest_settings, shape_of
from fullpass.pipeline.authoring.profile.number_profile import SURE_WORDS, has_code_na, missing_tokens, profile_numbers
from fullpass.pipeline.authoring.profile.sample import Sample, read_sample
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts, count_values
from fullpass.pipeline.authoring.rules import UNCHANGED, rule
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, RAW_TRAIN_ROW
from fullpass.preprocessing.values.convert import read_numbers

_BAD_ENCODING = 0.001
"""Share of rows that cannot be decoded, from which on the encoding is another one; a few are damaged."""
_LONGEST_NAME = 500
"""Characters of the name of a column; longer ones are rows of text."""
_MOST_BAD = 0.0005
"""Share of cells that are no number in a column of plain numbers: half of what a run accepts."""
_COUNTERS = ID_WORDS | frozenset("no nr n number line rec record".split())
_FEWEST_OF_COUNTER = 50
"""Different numbers of a counter; fewer may rise by one by chance."""
_NEARLY_ALWAYS = 0.97
"""Share of the rows in which a counter rises by one; some rows are left out."""


@dataclass(frozen=True, eq=False)
class SourceProfile:
    """A source and its columns.

    Attributes:
        unusable: (name, reason) of columns that cannot be read by name.
    """

    found: FoundSource
    sample: Sample
    columns: Sequence[ColumnProfile]
    unusable: Sequence[tuple[str, str]]

    def column(self, name: str) -> ColumnProfile | None:
        """Returns the column of this name, or None."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[str, ColumnProfile]:
        return {column.name: column for column in self.columns}


def profile_source(
    data: str, folder: Path, *, rows: int, known: Collection[str] = (), given: Mapping[str, Any] | None = None
) -> SourceProfile:
    """Returns the profile of the source `data`, from a sample of its rows.

    Args:
        known: Known column names. The first line of a CSV file is a header if it holds one of them.
        given: Keys of `data.source` that are not guessed.

    Raises:
        UserError: There is no such data, it holds no rows, or its format cannot be read.
    """
    found = infer_source(data, folder, known=known, given=given)
    if isinstance(found.source, ImagesSource):
        return _of_image_folders(found, rows)
    names, unusable = _usable_names(found)
    sample = read_sample(found.files, found.source, names, rows=rows)
    if isinstance(found.source, CsvSource) and _undecodable(sample, found.source) > _BAD_ENCODING:
        found = found.changed("encoding", "cp1252", "some of its bytes are not UTF-8")
        sample = read_sample(found.files, found.source, names, rows=rows)
    if not sample.rows:
        raise UserError(f"{data}: no row that can be read: only a header line, or rows with another number of cells.")
    found = _with_code_na(found, sample.counts)
    values = {name: column.without(found.source.missing) for name, column in sample.counts.items()}
    found, values = _with_missing(found, {n: v.with_decimal(_decimal(found)) for n, v in values.items()})
    values = {name: column.in_tokens() for name, column in values.items()}
    encoded = dictionary_columns(found.files[0], found.source)
    columns = [_column(name, sample, values, found, encoded) for name in names]
    return _with_images(SourceProfile(found, sample, columns, unusable), folder)


def _decimal(found: FoundSource) -> str:
    return str(getattr(found.source, "decimal", "."))


def _of_image_folders(found: FoundSource, rows: int) -> SourceProfile:
    sample = read_sample(found.files, found.source, ["label", "height", "width", "channels"], rows=rows)
    if not sample.rows:
        raise UserError(f"{found.files[0].path}: no image that can be read.")
    sizes = ([int(text) for text in sample.columns[name].to_pylist()] for name in ("height", "width", "channels"))
    shape = shape_of(list(zip(*sizes, strict=True)))
    values = count_values(sample.columns["label"])
    label = ColumnProfile("label", "constant" if values.distinct < 2 else "category", "names of folders", values)
    columns = [ColumnProfile("image", "image", shape.why, image=shape), label]
    return SourceProfile(found, sample, columns, list(FROM_IMAGE.items()))


@rule("paths of images", otherwise=UNCHANGED)
def _with_images(profile: SourceProfile, folder: Path) -> SourceProfile:
    """Returns the profile of a table with its first column of paths read as images, if the files exist."""
    paths = next((column for column in profile.columns if column.kind == "image_path"), None)
    table = profile.found.files[0].path
    if paths is None or not isinstance(profile.found.source, CsvSource | ParquetSource) or is_address(table):
        return profile
    settings = manifest_settings(profile.found.settings, paths.name)
    if settings is None or profile.column("image") is not None:
        return profile
    named = find_named(paths.values.texts, Path(table))
    if named is None:
        return profile
    if named.folder is not None:
        settings["folders"] = [path_from(named.folder, folder)]
    found = FoundSource(settings, {"labels": f"{paths.name} holds the paths of images"}, profile.found.files)
    image = ColumnProfile("image", "image", named.shape.why, image=named.shape)
    return replace(profile, found=found, columns=[image if column is paths else column for column in profile.columns])


@rule("bytes that are not UTF-8", otherwise=0.0)
def _undecodable(sample: Sample, source: CsvSource) -> float:
    """Returns the share of rows that cannot be decoded, estimated from the bad rows that are kept."""
    share = sum(row.reason == f"not {source.encoding}" for row in sample.bad) / max(len(sample.bad), 1)
    return share * sample.bad_share


def _column(
    name: str, sample: Sample, values: Mapping[str, ValueCounts], found: FoundSource, encoded: Collection[str]
) -> ColumnProfile:
    if name in sample.images:
        shape = shape_of(sample.images[name])
        return ColumnProfile(name, "image", shape.why, image=shape)
    if name in values:
        return _of_all_rows(profile_column(name, values[name]), sample, found, encoded)
    if name in sample.columns:
        return profile_list_column(name, sample.columns[name])
    return ColumnProfile(name, "unreadable", _why_unreadable(name, sample))


def _why_unreadable(name: str, sample: Sample) -> str:
    kind = sample.unreadable[name]
    fields = [other for other in (*sample.columns, *sample.unreadable) if other.startswith(f"{name}.")]
    if kind.startswith("struct") and fields:
        return f"a struct; its fields are columns: {', '.join(fields[:4])}"
    if "binary" in kind:
        return "bytes that are neither text nor a JPEG, PNG, GIF or BMP image"
    return f"{kind}, which no feature reads"


def _of_all_rows(column: ColumnProfile, sample: Sample, found: FoundSource, encoded: Collection[str]) -> ColumnProfile:
    """Returns a column of numbers as all rows seen show it: as an id, or with its outliers and rare other cells."""
    if column.numbers is None or column.like is not None:
        return column
    missing = found.source.missing_of(column.name)
    as_profiled = sample.is_counted(missing)
    if as_profiled:
        numbers, wrong = column.values.row_numbers, column.values.row_is_wrong
    else:
        numbers, wrong = read_numbers(sample.seen_columns[column.name], missing=missing, decimal=_decimal(found))
    if _counts_rows(column, numbers, len(found.files)):
        return replace(column, kind="id", why="one more than in the row above, in nearly all rows")
    if column.kind != "number":
        return column
    if column.name in encoded:
        return replace(column, kind="category", why="stored as a dictionary of values")
    bad = wrong.sum() / max(len(wrong), 1)
    if bad > _MOST_BAD:
        return replace(column, kind="written_number", why=f"{bad:.2%} of cells are no number", bad=bad)
    return replace(column, numbers=column.numbers if as_profiled else profile_numbers(numbers), bad=bad)


@rule("row counter", otherwise=False)
def _counts_rows(column: ColumnProfile, numbers: np.ndarray, files: int) -> bool:
    """Returns whether a number increases by one in nearly all rows seen, and hardly repeats.

    A column named like an index may begin again in each file. Otherwise a number that begins again is an entity or a
    day, not an id.
    """
    if column.numbers is None or not column.numbers.whole or column.values.distinct < _FEWEST_OF_COUNTER:
        return False
    steps = np.diff(numbers[~np.isnan(numbers)])
    most_beginnings = files - 1 if words_of(column.name) & _COUNTERS else 0
    return bool((steps == 1).mean() > _NEARLY_ALWAYS and (steps < 0).sum() <= most_beginnings)


def _usable_names(found: FoundSource) -> tuple[list[str], list[tuple[str, str]]]:
    """Returns the columns that every file has exactly once and by name, and the others with their reasons."""
    per_file = [columns_of_file(file, found.source) or [] for file in found.files if file.size]
    counts = Counter(name for names in per_file for name in set(names))
    usable, unusable = [], []
    for name in dict.fromkeys(name for names in per_file for name in names):
        why = ""
        if not name:
            why = "has no name in the header"
        elif any(names.count(name) > 1 for names in per_file):
            why = "is given twice in the header"
        elif len(name) > _LONGEST_NAME:
            why = f"has a name of {len(name):,} characters"
        elif name in (RAW_ROW_ID, RAW_TRAIN_ROW):
            why = "is the name of a column that ingest adds"
        elif counts[name] < len(per_file):
            why = f"is in {counts[name]} of {len(per_file)} files only"
        if why:
            unusable.append((name, why))
        else:
            usable.append(name)
    if len(usable) < 2:
        raise UserError(
            f"{found.files[0].path}: a label and a feature are two columns. "
            f"Received: {', '.join(usable) or 'none'}{''.join(f'; {shown(n)!r} {why}' for n, why in unusable[:5])}."
        )
    return usable, unusable


@rule("NA as a code", otherwise=UNCHANGED)
def _with_code_na(found: FoundSource, values: Mapping[str, ValueCounts]) -> FoundSource:
    """Returns the source without the missing token NA if that is a value of a column."""
    named = [name for name, column in values.items() if has_code_na(column)]
    if not named or "NA" not in found.source.missing:
        return found
    kept = [token for token in found.source.missing if token != "NA"]
    return found.changed("missing", kept, f"without NA, which is a value of {named[0]}")


def _with_missing(found: FoundSource, values: Mapping[str, ValueCounts]) -> tuple[FoundSource, dict[str, ValueCounts]]:
    """Returns the source with the detected missing tokens, and the columns without them.

    A token that is hardly ever a value, and is one in no column, is missing in all columns, any other only in its
    column.
    """
    if not {"missing", "missing_in"}.isdisjoint(found.given):
        return found, dict(values)
    tokens = {name: missing_tokens(column) for name, column in values.items()}
    sure = SURE_WORDS.difference(*(values[name].held(SURE_WORDS).difference(of) for name, of in tokens.items()))
    everywhere = list(dict.fromkeys(token for of in tokens.values() for token in of if token in sure))
    alone = {name: [t for t in of if t not in sure] for name, of in tokens.items() if not sure.issuperset(of)}
    known = {n: v.without([*everywhere, *alone.get(n, ())]) for n, v in values.items()}
    if everywhere:
        why = ", ".join(f"{shown(t)} in {_rows_with(values, t):,} cells" for t in everywhere[:4])
        found = found.changed("missing", [*found.source.missing, *everywhere], why)
    if alone:
        why = "; ".join(_why_missing(n, values[n], known[n], alone[n]) for n in list(alone)[:4])
        found = found.changed("missing_in", alone, why)
    return found, known


def _why_missing(name: str, values: ValueCounts, kept: ValueCounts, tokens: Sequence[str]) -> str:
    share = values.share(np.isin(np.array(values.texts, dtype=object), tokens))
    such = ", ".join(shown(token) for token in tokens[:3])
    others = kept.numbers[~np.isnan(kept.numbers)]
    among = f"all others {others.min():.6g} to {others.max():.6g}" if len(others) else "the others are values"
    return f"{name}: {such} in {share:.2%} of cells, {among}"


def _rows_with(values: Mapping[str, ValueCounts], token: str) -> int:
    return sum(int(v.counts[v.texts.index(token)]) for v in values.values() if v.held([token]))
