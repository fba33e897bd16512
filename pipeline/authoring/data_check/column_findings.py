"""Checks of columns: whether their values fit the type that the features read."""

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fullpass.pipeline.authoring.data_check.sampled_data import SampledData, in_quotes, such_as
from fullpass.pipeline.authoring.derived_columns import known_raw_columns, parsed
from fullpass.pipeline.authoring.loading.load import Finding, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.pipeline.authoring.profile.column_profile import profile_column
from fullpass.pipeline.authoring.profile.date_formats import find_dates
from fullpass.pipeline.authoring.profile.images import BROKEN
from fullpass.pipeline.authoring.profile.number_profile import SURE_WORDS, missing_tokens
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts, exact_number, same_number
from fullpass.pipeline.authoring.profile.written_numbers import find_form, several_units
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.columns.raw_columns import numbers_read_as_tokens
from fullpass.preprocessing.dates.date_format import MICROSECONDS_PER_DAY
from fullpass.preprocessing.dates.read_dates import read_dates
from fullpass.preprocessing.expressions.expression import Expression, counted_lists
from fullpass.preprocessing.expressions.syntax_tree import Call, ColumnReference, walk
from fullpass.preprocessing.features.feature import (
    BooleanFeature,
    CategoryFeature,
    DateFeature,
    DurationFeature,
    NumberFeature,
    TextFeature,
)
from fullpass.preprocessing.features.history import lists_of
from fullpass.preprocessing.features.ids import Vocabulary
from fullpass.preprocessing.values.convert import Converted, convert_raw, read_numbers
from fullpass.preprocessing.values.list_values import is_list, length_mismatch
from fullpass.preprocessing.values.written_values import read_written

_SOME, _MOST = 0.01, 0.5
_UNIQUE, _FEWEST_ROWS = 0.9, 100
_BEYOND_TOP_K = 0.1
_OFTEN_A_WORD = 0.001
_EPOCHS = {"epoch_seconds": 1.0, "epoch_millis": 0.001}
"""Format -> seconds per unit, of the times that float32 rounds by more than a second."""
_OFFSET = re.compile(r":.*(Z|[+-]\d\d(:?\d\d)?)$")
"""The offset after a time."""
_WHOLE = 2**24
"""The number up to which float32 holds all whole numbers."""


@rule("check of types read", otherwise=())
def check_types_read(sampled: SampledData) -> Iterator[Finding]:
    """The run reads columns of such a type."""
    for name, why in sampled.sample.refused.items():
        yield Finding(sampled.reader(name), why)


@rule("check of numbers", otherwise=())
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


@rule("check of constants", otherwise=())
def check_constants(sampled: SampledData) -> Iterator[Finding]:
    """Features read columns whose values differ."""
    for keys, _, column, values in sampled.features():
        if not values.present:
            yield warning(keys, f"column {column} has no value in any sampled row. Remove the feature.")
        elif values.distinct == 1 and values.missing_share == 0:
            yield warning(keys, f"column {column} is {in_quotes(values.texts)} in every row. Remove the feature.")


@rule("check of computed times", otherwise=())
def check_computed_times(sampled: SampledData) -> Iterator[Finding]:
    """No expression takes differences of times since 1970, which a number holds to the nearest 128 seconds only."""
    of_lists = lists_of(sampled.config.data.history)
    expressions, _ = parsed(sampled.config.data.derive)
    for name, expression in expressions.items():
        for column in sorted(_subtracted(expression)):
            values = sampled.values.get(of_lists.get(column, column))
            dates = find_dates(values, of_lists.get(column, column)) if values is not None else None
            if values is None or dates is None or dates.format not in _EPOCHS:
                continue
            step = np.spacing(np.nanmax(np.abs(values.numbers)).astype(np.float32)) * _EPOCHS[dates.format]
            yield warning(
                ("data", "derive", name),
                f"computes with {column}, which holds times ({dates.format}). Numbers are float32, which hold such "
                f"times to the nearest {step:,.0f} s, so the result is wrong by up to that. A duration feature "
                f"(start, end, format: {dates.format}) and past_last(HISTORY.at) of data.history are exact.",
            )


@rule("check of differences", otherwise=())
def check_differences(sampled: SampledData) -> Iterator[Finding]:
    """Columns that are read as numbers differ in digits that float32 holds."""
    also_tokens = numbers_read_as_tokens(sampled.config.preprocessing_config)  # `check_digits` judges these.
    for name, values in sampled.numbers():
        if name not in also_tokens and values.differ_too_little:
            different, kept = values.kept_by_float32
            yield warning(
                sampled.reader(name),
                f"column {name} holds {different:,} different numbers in the sampled rows, which are {kept:,} as "
                f"float32{such_as(values, ~np.isnan(values.numbers))}. If it is an id, write type: category or remove "
                "it; if it is a time, type: date; else subtract a constant from it before Fullpass reads it.",
            )


@rule("check of spellings", otherwise=())
def check_spellings(sampled: SampledData) -> Iterator[Finding]:
    """Columns that are read as numbers hold no codes such as 1.1 and 1.10, which are one number."""
    for name, values in sampled.numbers():
        if values.same_numbers.any():
            yield warning(
                sampled.reader(name),
                f"column {name}: {values.share(values.same_numbers):.1%} of its values are numbers that it holds in "
                f"several spellings, such as {in_quotes(same_number(values))}, which become equal. If they are codes, "
                "write type: category.",
            )


@rule("check of units", otherwise=())
def check_units(sampled: SampledData) -> Iterator[Finding]:
    """Numbers that are read as words have one unit."""
    for keys, feature, column, values in sampled.features():
        is_read_as_words = isinstance(feature, CategoryFeature | TextFeature)
        if is_read_as_words and several_units(values) and (caution := profile_column(column, values).caution):
            yield warning(keys, f"column {column}, read as words, holds {caution}.")


@rule("check of digits", otherwise=())
def check_digits(sampled: SampledData) -> Iterator[Finding]:
    """Ids are no numbers: float32 holds whole numbers to 16,777,216 only, so that ids beyond are equal."""
    config, of_lists = sampled.config, lists_of(sampled.config.data.history)
    for name, by in numbers_read_as_tokens(config.preprocessing_config).items():
        base = of_lists.get(name, name)
        what = f"{by} reads {name} as a category, but it is read as a number, too"
        fix = f"Read it as a category alone, or give it the type string and derive the number: number({base})."
        yield from _rounded(sampled, sampled.reader(name), base, what, fix)
    raw, (expressions, _) = known_raw_columns(config), parsed(config.data.derive)
    for derived, expression in expressions.items():
        for name in counted_lists(expression):
            if name in of_lists and raw[name].type == "number":
                what, fix = f"{name} is read as a number", f"Write data.types: {{{of_lists[name]}: string}}."
                yield from _rounded(sampled, ("data", "derive", derived), of_lists[name], what, fix)


def _rounded(sampled: SampledData, keys: Keys, column: str, what: str, fix: str) -> Iterator[Finding]:
    if (values := sampled.values.get(column)) is not None:
        with np.errstate(over="ignore"):
            read = values.numbers.astype(np.float32).tolist()
        lost = np.abs(values.numbers) > _WHOLE
        for index in np.flatnonzero(lost).tolist():
            lost[index] = exact_number(values.texts[index], float(values.numbers[index])) != read[index]
        lost &= values.numbers == np.floor(values.numbers)
        if lost.any():
            share = f"{values.share(lost):.1%} of its values"
            yield warning(keys, f"{what}: float32 rounds {share}{such_as(values, lost)}, so others equal them. {fix}")


def _subtracted(expression: Expression) -> set[str]:
    """Returns the columns from which a difference or a remainder is computed."""
    found = set[str]()
    for node, _ in walk(expression.root):
        if isinstance(node, Call) and node.function in ("-", "%"):
            found |= {inner.name for inner, _ in walk(node) if isinstance(inner, ColumnReference)}
    return found


@rule("check of images", otherwise=())
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


@rule("check of categories", otherwise=())
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


@rule("check of booleans", otherwise=())
def check_booleans(sampled: SampledData) -> Iterator[Finding]:
    """Booleans are true or false."""
    for keys, feature, column, values in sampled.features():
        if isinstance(feature, BooleanFeature):
            wrong = ~values.where(feature.reads)
            what = f"column {column}: {{share}} of values are neither true nor false"
            fix = "count as missing. Name them under `true` and `false`, or write type: category."
            yield from _unfit(keys, values, wrong, what, fix)


@rule("check of written numbers", otherwise=())
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


@rule("check of dates", otherwise=())
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
            if isinstance(feature, DateFeature):
                yield from _other_unit(keys, values, column, feature.format)


def _other_unit(keys: Keys, values: ValueCounts, column: str, format: str) -> Iterator[Finding]:
    """Yields a warning for numbers that are dates of the first days of 1970, and usual dates in a larger unit."""
    unit = {"epoch_millis": "epoch_seconds", "epoch_seconds": "epoch_days"}.get(format)
    if unit is not None and values.texts:
        read = read_dates(pa.array(values.texts, pa.string()), unit)
        days = read.utc[read.valid] // MICROSECONDS_PER_DAY
        if len(days) and np.all((days >= 365) & (days < 47_482)):  # 1971 to 2099; in the smaller unit, weeks of 1970
            first, last = np.array([days.min(), days.max()]).astype("datetime64[D]")
            what = f"column {column}: all dates are in the first weeks of 1970, in the format {format}"
            yield warning(keys, f"{what}. In {unit} they are {first} to {last}.")


@rule("check of event dates", otherwise=())
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
        yield from _other_unit(keys, values, column, format)
        zoned = values.where(lambda text: _OFFSET.search(text) is not None)
        if format == "iso" and 0 < values.share(zoned) < 1:
            what = f"column {column}: {values.share(zoned):.1%} of dates have an offset{such_as(values, zoned)}"
            yield warning(keys, f"{what}; the others{such_as(values, ~zoned)} count as UTC.")


@rule("check of lists", otherwise=())
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
