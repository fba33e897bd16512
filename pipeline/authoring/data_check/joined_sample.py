"""Joins a sample of the rows with the tables of `data.joins`, as Ingest joins all rows."""

from collections.abc import Sequence
from dataclasses import replace
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
from fullpass.pipeline.authoring.data_check.sampled_data import in_quotes
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, warning
from fullpass.pipeline.authoring.profile.sample import Sample
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.dates.date_format import MICROSECONDS_PER_DAY
from fullpass.preprocessing.values.arrow_text import to_text
from fullpass.preprocessing.values.raw_text import RawText
from fullpass.preprocessing.values.row_keys import KEY_MARK

_SHOWN = 3


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
        spans = span_numbers(pa.table({by.column: columns[by.column]}), by)
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
        found = index.find(table, text, spans)
        early = join.as_of is not None and _knows_days_at_midnight(join.as_of, index.folder, table, text)
        joined = {
            column: to_text(array, strip=False, missing=())[0] for column, array in index.columns_at(found.positions)
        }
    findings = []
    if early and join.as_of is not None:
        what = f"{join.as_of.right} holds days, which count from midnight on, and {join.as_of.left} times."
        fix = "If a row of the table describes its whole day, it tells the future: write available_after: 1d."
        findings.append(warning((*keys, "as_of"), f"{what} {fix}"))
    unmatched = found.positions < 0
    if unmatched.any():
        texts = keys_of(table, list(join.keys), text).texts.filter(pa.array(unmatched)).drop_null().unique()
        shown = [key.decode("utf-8", "replace").replace(KEY_MARK, ", ") for key in texts[:_SHOWN].to_pylist()]
        examples = f", such as {in_quotes(shown)}" if shown else ""
        words = f"{unmatched_words(name, int(unmatched.sum()), len(unmatched))}{examples}."
        findings.append(Finding(keys, words) if whole and unmatched.all() else warning(keys, words))
    if found.unreadable.any() and join.as_of is not None:
        what = f"{found.unreadable.mean():.2%} of rows have no date of the format {join.as_of.format}."
        findings.append(warning((*keys, "as_of", "left"), f"{what} They become bad rows."))
    return joined, findings


def _knows_days_at_midnight(as_of: AsOf, folder: str, table: pa.Table, text: RawText) -> bool:
    """Returns whether rows of a day see the joined row of the same day, which may describe all of it."""
    known = np.fromfile(f"{folder}/{TIME}", np.int64)
    times, there, _ = times_of(table, as_of.left, text, as_of.format)
    of_days = not (known % MICROSECONDS_PER_DAY).any() and bool((times[there] % MICROSECONDS_PER_DAY).any())
    return of_days and not as_of.delay
