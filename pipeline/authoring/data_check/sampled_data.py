"""The sample that `fullpass check --data` checks: as the pipeline file reads it, with its joins and derived columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.ingest.joins.build_index import build_index
from fullpass.components.ingest.joins.config import AsOf
from fullpass.components.ingest.joins.join_index import TIME, keys_of, times_of
from fullpass.components.ingest.joins.tables import Tables
from fullpass.components.ingest.sources.formats import FORMATS
from fullpass.components.ingest.spans.span_column import span_numbers
from fullpass.components.ingest.spans.spans import Window
from fullpass.components.ingest.writing.manifest import unmatched_words
from fullpass.pipeline.authoring.checks.data_rules import columns_read
from fullpass.pipeline.authoring.derived_columns import derived_types, known_raw_columns, parsed
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, shown
from fullpass.pipeline.authoring.profile.date_formats import Dates
from fullpass.pipeline.authoring.profile.evaluate_expression import evaluate_arrays, expression_input
from fullpass.pipeline.authoring.profile.label_candidates import label_rows
from fullpass.pipeline.authoring.profile.leaks import strongest_aspect
from fullpass.pipeline.authoring.profile.sample import Sample, split_indices
from fullpass.pipeline.authoring.profile.strength import Strength, Target
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts, count_computed, count_values
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.columns.raw_columns import RawColumn, feature_columns
from fullpass.preprocessing.dates.date_format import MICROSECONDS_PER_DAY
from fullpass.preprocessing.dates.read_dates import read_dates
from fullpass.preprocessing.features.feature import DateFeature, Feature, NumberFeature
from fullpass.preprocessing.token_spelling import as_token
from fullpass.preprocessing.values.arrow_text import as_tokens, to_text
from fullpass.preprocessing.values.raw_text import RawText
from fullpass.preprocessing.values.row_keys import KEY_MARK
from fullpass.preprocessing.values.written_values import read_written


@dataclass(frozen=True, eq=False)
class SampledData:
    """A pipeline file and a sample of its data.

    Attributes:
        values: Raw and derived columns by name, without missing tokens and "", which features and labels take as
            missing. Lists of numbers are only in `sample`.
    """

    loaded: Loaded
    sample: Sample
    raw: Mapping[str, RawColumn]
    values: Mapping[str, ValueCounts]

    @property
    def config(self) -> PipelineConfig:
        """The pipeline file."""
        return self.loaded.config

    @cached_property
    def target(self) -> Target | None:
        """The label of every row; None if its column is not in the sample."""
        label = self.config.label
        values = self.values.get(label.name)
        if values is None:
            return None
        y = label_rows(values, label.task, label.positive, label.classes, label.separator)
        return Target(label.task, y, label.name, () if label.task == "regression" else values.texts)

    @cached_property
    def strengths(self) -> Mapping[str, Strength | None]:
        """How well each column alone tells the label, as its first feature reads it; empty where it need not be known.

        A forecast may be told by the present value of its label.
        """
        if self.target is None or self.config.label.forecast is not None:
            return {}
        first: dict[str, Feature] = {}
        for _, feature, name, _ in self.features():
            first.setdefault(name, feature)
        read = {name: _as_read(name, self.values[name], feature) for name, feature in first.items()}
        return {name: strongest_aspect(column, self.target) for name, column in read.items()}

    @cached_property
    def split_indices(self) -> np.ndarray | None:
        """The split of each sampled row, as `sample.split_indices`: hashing wide rows takes seconds."""
        return split_indices(self.config.data, self.sample)

    def features(self) -> Iterator[tuple[Keys, Feature, str, ValueCounts]]:
        """Yields each feature with each of its columns that holds one value per row."""
        for name, feature in self.config.all_features.items():
            for column in feature_columns(name, feature):
                if column in self.values:
                    yield self.config.keys_of(name), feature, column, self.values[column]

    def numbers(self) -> Iterator[tuple[str, ValueCounts]]:
        """Yields each raw column that is read as a number and is in the sample."""
        for name, raw in self.raw.items():
            if raw.type == "number" and name in self.values:
                yield name, self.values[name]

    def reader(self, column: str) -> Keys:
        """Returns the path of the first key that reads a raw column."""
        return first_reader(self.loaded, column)

    def set_aside(self, keys: Keys, share: float, what: str, fix: str = "") -> Iterator[Finding]:
        """Yields a finding for a share of rows that Ingest sets aside: an error if it exceeds `data.bad_rows`."""
        allowed = self.config.data.bad_rows.max_fraction
        if share > allowed:
            yield Finding(keys, f"{what} The run allows {allowed:.2%} (data.bad_rows).{fix}")
        elif share:
            yield warning(keys, f"{what} Those rows are set aside.")


def _as_read(name: str, values: ValueCounts, feature: Feature) -> ColumnProfile:
    """Returns the profile of a column as a feature reads it."""
    if isinstance(feature, NumberFeature) and feature.format is not None:
        read = values.per_row(read_written(values.texts, feature.format)).astype(np.float32)
        return ColumnProfile(name, "number", "", count_computed(read))
    if isinstance(feature, NumberFeature):
        return ColumnProfile(name, "number", "", values)
    if isinstance(feature, DateFeature):
        moments = read_dates(pa.array(values.texts, pa.string()), feature.format).seconds
        return ColumnProfile(name, "date", "", values, dates=Dates(feature.format, 1.0, moments))
    return ColumnProfile(name, "text" if feature.type == "text" else "category", "", values)


def first_reader(loaded: Loaded, column: str) -> Keys:
    """Returns the path of the first key that reads a column; a derived column only if no other key does."""
    readers = [keys for keys, read in columns_read(loaded) if read == column]
    return min(readers, key=lambda keys: keys[:2] == ("data", "derive"), default=("data",))


def sampled_data(loaded: Loaded, sample: Sample) -> SampledData:
    """Returns the sample as the file reads it, with the derived columns whose inputs are in the sample."""
    text = loaded.config.data.source.raw_text
    raw = {name: column for name, column in known_raw_columns(loaded.config).items() if name in sample.columns}
    values = {}
    for name, array in sample.columns.items():
        if pa.types.is_string(array.type):
            read, missing = sample.numbers.get(name, array), text.missing_of(name)
            if name in raw and raw[name].token:
                read, missing = as_tokens(read, text.decimal), tuple(as_token(token, text.decimal) for token in missing)
            counts = sample.counts[name] if read is array else count_values(read)
            values[name] = counts.with_decimal(text.decimal).without((*missing, ""))
    return SampledData(loaded, sample, raw, {**values, **_derived(loaded.config, values, raw, sample.rows)})


def _derived(
    config: PipelineConfig, values: Mapping[str, ValueCounts], raw: Mapping[str, RawColumn], rows: int
) -> dict[str, ValueCounts]:
    types, _ = derived_types(config)
    expressions, _ = parsed(config.data.derive)
    read = {column for expression in expressions.values() for column in expression.columns}
    arrays: dict[str, np.ndarray] = {
        name: expression_input(values[name], column.type)
        for name, column in raw.items()
        if name in values and name in read
    }
    found: dict[str, ValueCounts] = {}
    for name, expression in expressions.items():
        if name in types and expression.columns <= arrays.keys():
            arrays[name] = evaluate_arrays(expression, arrays, rows)
            found[name] = count_computed(arrays[name])
    return found


def in_quotes(texts: Iterable[str], longest: int = 24) -> str:
    """Returns examples for a message: `"?", "n/a"`."""
    return ", ".join(f'"{shown(text, longest)}"' for text in texts)


def such_as(values: ValueCounts, wrong: np.ndarray) -> str:
    """Returns the commonest of the wrong values, bool [values], for a message: `, such as "?", "n/a"`."""
    examples = in_quotes(values.examples(wrong))
    return f", such as {examples}" if examples else ""


_SHOWN = 3
"""Keys without a match that a message names."""
_MOST_JOINED_BYTES = 256 << 20
"""Largest size of the columns that a join adds to the sample."""


def with_joined_columns(
    loaded: Loaded, sample: Sample, names: Sequence[str], window: Window
) -> tuple[Sample, list[Finding]]:
    """Returns the sample with joined columns as text, and a finding for each join that leaves rows without a match.

    Tables beyond the byte budget of samples are not read, and a warning says so.

    Args:
        window: The spans of the run. Of tables per span, rows without a span column have that of the newest span.
    """
    columns, findings = dict(sample.seen_columns), list[Finding]()
    spans: int | np.ndarray = window.spans[-1].number
    if (by := loaded.config.data.span) is not None and by.column in columns:
        text = loaded.config.data.source.raw_text
        spans = span_numbers(pa.table({by.column: columns[by.column]}), by, text.decimal)
    for name, join in loaded.config.data.joins.items():
        if {*join.left_columns} <= columns.keys():
            tables = window.tables[name].seen_by(np.unique(spans).tolist())
            found, of_join = _joined(loaded, name, tables, pa.table(columns), spans, names, whole=sample.whole)
            columns |= found
            findings += of_join
    return replace(sample, seen_columns=columns), findings


def _joined(
    loaded: Loaded,
    name: str,
    tables: Tables,
    table: pa.Table,
    spans: int | np.ndarray,
    names: Sequence[str],
    *,
    whole: bool,
) -> tuple[dict[str, pa.Array], list[Finding]]:
    """Returns the columns of one join as text, and what is wrong with it; whole: `table` has all rows of the source."""
    data, keys = loaded.config.data, ("data", "joins", name)
    join, text = data.joins[name], data.source.raw_text
    with TemporaryDirectory() as folder:
        try:
            if sum(file.size for file in tables.files) > FORMATS[join.source.format].sampled_bytes:
                return {}, [warning(keys, "the table is too large for this check, so its columns are not looked at.")]
            columns = [RawColumn(column, "string") for column in names]
            index = build_index(name, join, tables, columns, data.bad_rows.max_fraction, folder)
        except UserError as error:
            return {}, [Finding(keys, str(error).removeprefix(f"data.joins.{name}: "))]
        positions, unreadable = index.find(table, text, spans)
        early = join.as_of is not None and _knows_days_at_midnight(join.as_of, index.folder, table, text)
        small = int(index.bytes_at(positions).sum()) <= _MOST_JOINED_BYTES
        cells = index.columns_at(positions) if small else []
        joined = {one: to_text(array.combine_chunks(), strip=False, missing=())[0] for one, array in cells}
    findings = []
    if not small:
        findings.append(warning(keys, "the joined cells are too large for this check, so they are not looked at."))
    if early and join.as_of is not None:
        what = f"{join.as_of.right} holds days, which count from midnight on, and {join.as_of.left} times."
        fix = "If a row of the table describes its whole day, it tells the future: write available_after: 1d."
        findings.append(warning((*keys, "as_of"), f"{what} {fix}"))
    unmatched = positions < 0
    if unmatched.any():
        texts = keys_of(table, list(join.keys), text).texts.filter(pa.array(unmatched)).drop_null().unique()
        shown = [key.decode("utf-8", "replace").replace(KEY_MARK, ", ") for key in texts[:_SHOWN].to_pylist()]
        examples = f", such as {in_quotes(shown)}" if shown else ""
        words = f"{unmatched_words(name, int(unmatched.sum()), len(unmatched))}{examples}."
        findings.append(Finding(keys, words) if whole and unmatched.all() else warning(keys, words))
    if unreadable.any() and join.as_of is not None:
        what = f"{unreadable.mean():.2%} of rows have no date of the format {join.as_of.format}."
        findings.append(warning((*keys, "as_of", "left"), f"{what} They become bad rows."))
    return joined, findings


def _knows_days_at_midnight(as_of: AsOf, folder: str, table: pa.Table, text: RawText) -> bool:
    """Returns whether rows of a day see the joined row of the same day, which may describe all of it."""
    known = np.fromfile(f"{folder}/{TIME}", np.int64)
    times, there, _ = times_of(table, as_of.left, text, as_of.format)
    of_days = not (known % MICROSECONDS_PER_DAY).any() and bool((times[there] % MICROSECONDS_PER_DAY).any())
    return of_days and not as_of.delay
