"""Checks of columns: whether their values fit the type that the features read."""

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fullpass.pipeline.authoring.data_check.sampled_data import SampledData, in_quotes, such_as
from fullpass.pipeline.authoring.loading.load import Finding, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.pipeline.authoring.profile.date_formats import find_dates
from fullpass.pipeline.authoring.profile.images import BROKEN
from fullpass.pipeline.authoring.profile.number_profile import SURE_WORDS, missing_tokens
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.pipeline.authoring.profile.word_orders import UNKNOWN
from fullpass.pipeline.authoring.profile.written_numbers import find_form
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.dates.read_dates import read_dates
from fullpass.preprocessing.features.feature import (
    BooleanFeature,
    CategoryFeature,
    DateFeature,
    DurationFeature,
    NumberFeature,
    OrdinalFeature,
)
from fullpass.preprocessing.features.ids import Vocabulary
from fullpass.preprocessing.token_spelling import as_token
from fullpass.preprocessing.values.convert import Converted, convert_raw, read_numbers
from fullpass.preprocessing.values.list_values import is_list, length_mismatch
from fullpass.preprocessing.values.written_values import read_written

_SOME = 0.01
"""Share of values that do not fit, from which on it is told."""
_MOST = 0.5
"""Share of values that do not fit, from which on the declaration is wrong."""
_UNIQUE = 0.9
"""Different values per row of a category that tells nothing."""
_FEWEST_ROWS = 100
"""Rows from which on that is told."""
_BEYOND_TOP_K = 0.1
"""Share of rows without an id of their own."""
_OFTEN_A_WORD = 0.001
"""Share of rows of a word that may mean missing."""
_OFFSET = re.compile(r":.*(Z|[+-]\d\d(:?\d\d)?)$")
"""The offset after a time."""


def check_types_read(sampled: SampledData) -> Iterator[Finding]:
    """The run reads columns of such a type."""
    for name, why in sampled.sample.refused.items():
        yield Finding(sampled.reader(name), why)


def check_numbers(sampled: SampledData) -> Iterator[Finding]:
    """Columns read as numbers hold numbers, or fewer other cells than would stop the run."""
    sample, text = sampled.sample, sampled.config.data.source.raw_text
    for name, values in sampled.numbers():
        if name in sample.refused:
            continue
        missing, cells = text.missing_of(name), sample.seen_numbers.get(name, sample.seen_columns[name])
        if "" in missing and sample.is_counted(missing):  # the counts of `sampled` are without empty cells
            wrong = values.row_is_wrong
        else:
            _, wrong = read_numbers(cells, missing=missing, decimal=text.decimal)
        if share := int(wrong.sum()) / max(len(wrong), 1):
            tokens = missing_tokens(values)
            fix = " Write type: category, or how they are written: `format` of the number feature."
            if tokens:
                fix = f" If {in_quotes(tokens[:3])} means missing, add it to data.source.missing."
            what = f"column {name}: {share:.2%} of cells are no number{such_as(values, np.isnan(values.numbers))}."
            yield from sampled.set_aside(sampled.reader(name), share, what, fix)


@rule("check of missing words", otherwise=())
def check_missing_words(sampled: SampledData) -> Iterator[Finding]:
    """Every value that means "missing" is declared."""
    for name, values in sampled.values.items():
        if name not in sampled.raw or sampled.raw[name].type == "number":
            continue
        words = values.where(lambda text: text in SURE_WORDS)
        share = values.share(words)
        if words.any() and share >= _OFTEN_A_WORD:
            yield warning(
                sampled.reader(name),
                f"column {name} holds {in_quotes(values.examples(words))} in {share:.1%} of its rows. If that means "
                "missing, add it to data.source.missing.",
            )


def check_constants(sampled: SampledData) -> Iterator[Finding]:
    """Features read columns whose values differ."""
    for keys, _, column, values in sampled.features():
        if not values.present:
            yield warning(keys, f"column {column} has no value in any sampled row. Remove the feature.")
        elif values.distinct == 1 and values.missing_share == 0:
            yield warning(keys, f"column {column} is {in_quotes(values.texts)} in every row. Remove the feature.")


def check_images(sampled: SampledData) -> Iterator[Finding]:
    """Image columns hold encoded images, judged by their headers, or fewer other cells than would stop the run."""
    for name, raw in sampled.raw.items():
        if raw.image and name in sampled.values:
            values = sampled.values[name]
            broken = values.where(lambda text: text.startswith(BROKEN))
            share = values.share(broken)
            reasons = ", ".join(text.removeprefix(BROKEN) for text in values.examples(broken))
            what = f"column {name}: {share:.2%} of cells are no image that can be decoded ({reasons})."
            yield from sampled.set_aside(sampled.reader(name), share, what)


def check_categories(sampled: SampledData) -> Iterator[Finding]:
    """The values of categories repeat, and most of them have their own id."""
    for keys, feature, column, values in sampled.features():
        if not isinstance(feature, CategoryFeature) or not values.present:
            continue
        if feature.separator is None and values.distinct > _UNIQUE * values.present > _UNIQUE * _FEWEST_ROWS:
            yield warning(
                keys,
                f"column {column} holds {values.distinct:,} values in {values.present:,} rows: nearly all "
                "different, so there is nothing to learn from it. If it is an id, remove it; if it is text, write "
                "type: text.",
            )
        elif feature.vocabulary is not None:
            yield from _vocabulary_findings(keys, feature.vocabulary, column, values, feature.lowercase)
        elif feature.identity is not None and feature.separator is None:
            outside = ~values.where(feature.identity.has_id)
            what = f"{{share}} of values of {column} are not whole numbers 0 .. {feature.identity.size - 1}"
            fix = "get id 1. Raise size, or write type: category alone."
            yield from _unfit((*keys, "identity"), values, outside, what, fix)


def check_booleans(sampled: SampledData) -> Iterator[Finding]:
    """Booleans are true or false."""
    for keys, feature, column, values in sampled.features():
        if isinstance(feature, BooleanFeature):
            wrong = ~values.where(feature.reads)
            what = f"column {column}: {{share}} of values are neither true nor false"
            fix = "count as missing. Name them under `true` and `false`, or write type: category."
            yield from _unfit(keys, values, wrong, what, fix)


def check_ordinals(sampled: SampledData) -> Iterator[Finding]:
    """Ordinals hold the words of their order."""
    for keys, feature, column, values in sampled.features():
        if isinstance(feature, OrdinalFeature):
            order = feature.order
            wrong = ~values.where(lambda text: as_token(text) in order or text.lower() in UNKNOWN)  # noqa: B023 at once
            what = f"{{share}} of values of {column} are no words of the order"
            yield from _unfit((*keys, "order"), values, wrong, what, "count as missing. Add them where they belong.")


def check_written_numbers(sampled: SampledData) -> Iterator[Finding]:
    """Written numbers fit their format."""
    for keys, feature, column, values in sampled.features():
        if isinstance(feature, NumberFeature) and feature.format is not None:
            wrong = np.isnan(read_written(values.texts, feature.format))
            found = find_form(values) if wrong.any() else None
            fits = found is not None and found.like != feature.format
            fix = f"They fit {found.like}." if found and fits else "Give the format they are written in."
            what = f"column {column}: {{share}} of values are not written like {feature.format}"
            yield from _unfit(keys, values, wrong, what, f"count as missing. {fix}")


def check_dates(sampled: SampledData) -> Iterator[Finding]:
    """Dates fit their format."""
    for keys, feature, column, values in sampled.features():
        if isinstance(feature, DateFeature | DurationFeature):
            wrong = ~read_dates(pa.array(values.texts, pa.string()), feature.format).valid
            found = find_dates(values, column) if wrong.any() else None
            fits = found is not None and found.format != feature.format
            fix = f"They fit {found.format}." if found and fits else "Give the format they are written in."
            what = f"column {column}: {{share}} of values do not fit the format {feature.format}"
            yield from _unfit(keys, values, wrong, what, f"count as missing. {fix}")


def check_event_dates(sampled: SampledData) -> Iterator[Finding]:
    """Dates of histories and forecasts can be read, and have an offset in all rows or in none."""
    data, shifted = sampled.config.data, sampled.config.label.shifted
    dates: list[tuple[Keys, str, str]] = [
        (("data", "history", n, "at"), h.at, h.format) for n, h in data.history.items()
    ]
    dates += [(("label", "forecast", "at"), shifted.at, shifted.format)] if shifted else []
    for keys, column, format in dates:
        values = sampled.values.get(column)
        if values is None:
            continue
        wrong = ~read_dates(pa.array(values.texts, pa.string()), format).valid
        what = f"column {column}: {values.share(wrong):.2%} of dates do not fit the format {format}"
        yield from sampled.set_aside(keys, values.share(wrong), f"{what}{such_as(values, wrong)}.")
        zoned = values.where(lambda text: _OFFSET.search(text) is not None)
        if format == "iso" and 0 < values.share(zoned) < 1:
            what = f"column {column}: {values.share(zoned):.1%} of dates have an offset{such_as(values, zoned)}"
            yield warning(keys, f"{what}; the others{such_as(values, ~zoned)} count as UTC.")


def check_lists(sampled: SampledData) -> Iterator[Finding]:
    """Vectors and lists are as the run reads them; columns read as single values hold no lists."""
    text, sample = sampled.config.data.source.raw_text, sampled.sample
    converted: dict[str, Converted] = {}
    for name, raw in sampled.raw.items():
        array = sample.numbers.get(name, sample.columns[name])
        if name not in sample.refused and (raw.many or raw.type == "vector" or is_list(array.type)):
            converted[name] = convert_raw(array, raw, text)
            for wrong, reason in converted[name].problems:
                yield from _in_rows(sampled, name, wrong, f"column {name}: {reason}")
    for group in sorted({raw.group for raw in sampled.raw.values() if raw.group is not None}):
        members = [name for name, raw in sampled.raw.items() if raw.group == group and name in converted]
        if len(members) > 1:
            bad = np.any([converted[name].bad for name in members], axis=0)
            wrong = length_mismatch([converted[name].flat for name in members]) & ~bad
            what = f"columns {' and '.join(members)}: lists of different lengths in one row"
            yield from _in_rows(sampled, members[0], wrong, what)


def _in_rows(sampled: SampledData, name: str, wrong: np.ndarray, what: str) -> Iterator[Finding]:
    share = float(wrong.mean()) if len(wrong) else 0.0
    yield from sampled.set_aside(sampled.reader(name), share, f"{what}, in {share:.2%} of rows.")


def _unfit(keys: Keys, values: ValueCounts, wrong: np.ndarray, what: str, then: str) -> Iterator[Finding]:
    """Yields a finding, with its {share}, for values that do not fit: an error if they are the majority."""
    share = values.share(wrong)
    if share > _SOME or (share and values.distinct <= 2):
        message = f"{what.replace('{share}', f'{share:.1%}')}{such_as(values, wrong)}; they {then}"
        yield Finding(keys, message, "error" if share > _MOST else "warning")


def _vocabulary_findings(
    keys: Keys, vocabulary: Vocabulary, column: str, values: ValueCounts, lowercase: bool
) -> Iterator[Finding]:
    if vocabulary.tokens is not None:
        tokens = set(vocabulary.tokens)
        unknown = values.where(lambda text: (text.lower() if lowercase else text) not in tokens)
        what = f"{{share}} of values of {column} are none of the tokens"
        fix = "share the OOV buckets. Add them to tokens."
        yield from _unfit((*keys, "vocabulary", "tokens"), values, unknown, what, fix)
    elif vocabulary.top_k is not None and values.distinct > 2 * vocabulary.top_k:
        beyond = float(values.counts[vocabulary.top_k :].sum() / values.present)
        if beyond > _BEYOND_TOP_K:
            yield warning(
                (*keys, "vocabulary", "top_k"),
                f"{values.distinct:,} values of {column} in {values.present:,} rows are far above top_k: {beyond:.0%} "
                "of rows get no id of their own. Raise top_k, or write "
                f"hash: {{buckets: {10 ** len(str(values.distinct))}}}.",
            )
