"""Sketches of the series that the gate compares, filled batch by batch in bounded memory."""

import hashlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.components.data_gate.distribution import (
    ATOMS,
    Distribution,
    category_distribution,
    number_distribution,
)
from fullpass.components.data_gate.series import Series, SeriesSource
from fullpass.components.ingest.splitting.derived_batches import derived_column
from fullpass.preprocessing.columns.raw_columns import RawColumn, derived_dependencies, with_source_columns
from fullpass.preprocessing.dates.read_dates import ReadDates, read_dates
from fullpass.preprocessing.internals.tfx_bsl_internals import MisraGriesSketch, QuantilesSketch
from fullpass.preprocessing.values.arrow_text import as_readable, as_tokens, null_where
from fullpass.preprocessing.values.list_values import flatten, is_list, lengths_of, sole_values, split_text
from fullpass.preprocessing.values.written_values import read_written

_SKETCHED = 4096
"""Number of distinct tokens per file up to which the counts are exact."""
_LONGEST_TOKEN = 256
"""Longest token, in bytes. Its beginning and a digest replace a longer token, which keeps documents out of sketches."""
_BEGINNING = 64
"""Bytes of a longer token that are kept."""
_SKETCH_ERROR = 5e-4
"""Largest error of the rank of a quantile, as a share of the rows: small beside a range of 1/20 of them."""
_MOST_ROWS = 1 << 32
"""Rows for which the sketch keeps this error."""


class NumberSketch:
    """A quantile sketch of the numbers of one file, filled batch by batch."""

    def __init__(self) -> None:
        self._sketch = QuantilesSketch(_SKETCH_ERROR, _MOST_ROWS, 1)
        self._present = self._missing = 0

    def add(self, values: np.ndarray, missing: int) -> None:
        """Adds float [n]; values that are not finite count as missing."""
        finite = values[np.isfinite(values)].astype(np.float64)
        self._present += len(finite)
        self._missing += missing + len(values) - len(finite)
        if len(finite):
            self._sketch.AddValues(pa.array(finite))

    def distribution(self) -> Distribution:
        """Returns the distribution of the added numbers."""
        if not self._present:
            return Distribution("number", missing=float(self._missing))
        quantiles = self._sketch.GetQuantilesAndCumulativeWeights(ATOMS)
        values, below = (np.asarray(part.flatten(), dtype=np.float64) for part in quantiles)
        return number_distribution(values, below, missing=float(self._missing))


def _short(tokens: pa.Array) -> pa.Array:
    """Returns tokens, each long one replaced by its beginning and a digest. Equal tokens stay equal."""
    sizes = pc.binary_length(tokens)
    if pc.max(sizes).as_py() <= _LONGEST_TOKEN:
        return tokens
    long = pc.greater(sizes, _LONGEST_TOKEN)
    shortened = [_beginning_and_digest(token.as_buffer()) for token in tokens.filter(long)]
    return pc.replace_with_mask(tokens, long, pa.array(shortened, pa.binary()))


def _beginning_and_digest(token: pa.Buffer) -> bytes:
    view = memoryview(token)
    beginning = bytes(view[:_BEGINNING]).decode("utf-8", "ignore").encode()
    return beginning + f" ... {hashlib.sha256(view).hexdigest()[:16]} ({len(view):,} bytes)".encode()


class TokenSketch:
    """A heavy-hitter sketch of the tokens of one file, filled batch by batch."""

    def __init__(self) -> None:
        self._sketch = MisraGriesSketch(_SKETCHED)
        self._present = self._missing = 0

    def add(self, tokens: pa.Array, missing: int) -> None:
        """Adds tokens, string or binary [n] without nulls."""
        self._present += len(tokens)
        self._missing += missing
        if len(tokens):
            self._sketch.AddValues(_short(tokens.cast(pa.binary())))

    def distribution(self) -> Distribution:
        """Returns the distribution of the added tokens, without tokens that an approximate count may rank too high."""
        estimate = self._sketch.Estimate().flatten() if self._present else [pa.array([]), pa.array([])]
        tokens, counts = estimate[0].to_pylist(), np.asarray(estimate[1], dtype=np.float64)
        counted = {token.decode("utf-8", "replace"): count for token, count in zip(tokens, counts, strict=True)}
        complete = len(tokens) < _SKETCHED
        least = 0.0 if complete else 4 * self._present / _SKETCHED  # a count is too large by a quarter of this at most
        return category_distribution(counted, self._present, float(self._missing), complete=complete, least=least)


_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Sketches:
    """Sketches of every series, filled batch by batch. rows: rows added so far."""

    def __init__(self, source: SeriesSource):
        self.rows = 0
        self._source = source
        self._sketches: dict[str, NumberSketch | TokenSketch] = {
            one.name: NumberSketch() if one.kind == "number" else TokenSketch() for one in source.series
        }

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Adds the rows of a batch whose columns are those of `add`."""
        self.add(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows)

    def add(self, columns: Mapping[str, pa.Array], rows: int) -> None:
        """Adds rows.

        Args:
            columns: Raw columns [rows], null where missing: float32, binary, or lists of them as in tf.Examples. A
                column that is absent is missing in all rows.
        """
        if not rows:
            return
        self.rows += rows
        flat = {c.name: _flat(columns.get(c.name), rows, c) for c in self._source.columns if not c.many}
        lists = {c.name: _elements(columns.get(c.name), rows, c) for c in self._source.columns if c.many}
        dates = dict[str, ReadDates]()  # A column of dates has several series, and reading takes the most time.
        for one in self._source.series:
            array = (
                lists[one.column]
                if one.column in lists
                else flat[one.column]
                if one.column in flat
                else self._derived(one.column, flat)
            )
            sketch = self._sketches[one.name]
            missing = array.null_count
            present = array.drop_null()
            if isinstance(sketch, NumberSketch):
                sketch.add(_numbers(present, one), missing)
            else:
                if one.what == "date" and one.column not in dates:
                    dates[one.column] = read_dates(as_readable(present), str(one.format))
                tokens = _date_parts(dates[one.column], one) if one.what == "date" else _tokens(present, one)
                sketch.add(tokens.drop_null(), missing + tokens.null_count)

    def distributions(self) -> dict[str, Distribution]:
        """Returns the distribution of each series, by name."""
        return {name: sketch.distribution() for name, sketch in self._sketches.items()}

    def _derived(self, column: str, flat: Mapping[str, pa.Array]) -> pa.Array:
        every, derive = self._source.columns, self._source.derive
        needed = with_source_columns([column], derive)
        columns = [one for one in every if one.name in needed] or [one for one in every if not one.many]
        return derived_column(column, flat, columns, derived_dependencies(column, derive))


def _elements(array: pa.Array | None, rows: int, column: RawColumn) -> pa.Array:
    """Returns the elements of all lists, null for missing elements, and one null for each row without elements."""
    kind = pa.binary() if column.type == "string" else pa.float32()
    if array is None or pa.types.is_null(array.type):
        return pa.nulls(rows, kind)
    values = _plain(array.flatten())
    missing = pc.equal(values, b"") if column.type == "string" else pc.is_nan(values)
    present = null_where(missing, values).cast(kind)
    return pa.concat_arrays([present, pa.nulls(int((lengths_of(array) == 0).sum()), kind)])


def _flat(array: pa.Array | None, rows: int, column: RawColumn) -> pa.Array:
    """Returns a column with one value per row; a vector becomes its mean, and an empty list null."""
    vector = column.type == "vector"
    if array is None or pa.types.is_null(array.type):
        return pa.nulls(rows, pa.float32() if vector else pa.binary())
    if not is_list(array.type):
        return _plain(array)
    if vector:
        lengths = lengths_of(array)
        means = np.full(rows, np.nan)
        rows_of = np.repeat(np.arange(rows), lengths)
        values = array.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
        sums = np.bincount(rows_of, weights=values, minlength=rows)
        np.divide(sums, lengths, out=means, where=lengths > 0)
        return pa.array(means, mask=np.isnan(means))
    return _plain(sole_values(array))


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(pa.binary()) if pa.types.is_large_binary(array.type) else array


def _numbers(present: pa.Array, series: Series) -> np.ndarray:
    if series.what == "length":
        return pc.utf8_length(as_readable(present)).to_numpy(zero_copy_only=False).astype(np.float64)
    if pa.types.is_floating(present.type) or pa.types.is_integer(present.type):
        return present.to_numpy(zero_copy_only=False)
    if series.format is None:
        return np.full(len(present), np.nan)
    distinct = as_readable(present).dictionary_encode()
    return read_written(distinct.dictionary.to_pylist(), series.format)[distinct.indices.to_numpy(zero_copy_only=False)]


def _tokens(present: pa.Array, series: Series) -> pa.Array:
    """Returns the tokens of values; null for a value without a token."""
    if not (pa.types.is_binary(present.type) or pa.types.is_string(present.type)):
        distinct = present.dictionary_encode()
        written = pa.array([f"{value:g}" for value in distinct.dictionary.to_pylist()], pa.string())
        present = written.take(distinct.indices)
    if series.separator is not None:
        parts = flatten(split_text(as_readable(present), series.separator, strip=True))
        return as_tokens(parts.filter(pc.not_equal(parts, "")), series.decimal)
    tokens = as_tokens(as_readable(present), series.decimal)
    if series.positive is not None:
        wanted = series.positive if isinstance(series.positive, str) else f"{series.positive:g}"
        return pc.if_else(pc.equal(tokens, wanted), wanted, f"not {wanted}")
    return tokens


def _date_parts(read: ReadDates, series: Series) -> pa.Array:
    """Returns a part of each date as text, in the local time of the text; null if the text is no date."""
    moments = read.local.astype("datetime64[us]")
    days, months = moments.astype("datetime64[D]"), moments.astype("datetime64[M]")
    numbers = {
        "month": lambda: months.astype(np.int64) % 12 + 1,
        "day": lambda: (days - months.astype("datetime64[D]")).astype(np.int64) + 1,
        "day_of_week": lambda: (days.astype(np.int64) + 3) % 7,
        "hour": lambda: moments.astype("datetime64[h]").astype(np.int64) % 24,
    }[str(series.part)]()
    names = pa.array(_WEEKDAYS if series.part == "day_of_week" else map(str, range(32)), pa.string())
    return names.take(pa.array(numbers, mask=~read.valid))
