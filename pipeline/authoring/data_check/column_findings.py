"""Checks of columns: whether their values fit the type that the features read."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fullpass.pipeline.authoring.checks.findings import Finding, warning
from fullpass.pipeline.authoring.data_check.sampled_data import SampledData, listed
from fullpass.pipeline.authoring.profile.date_formats import find_dates
from fullpass.pipeline.authoring.profile.image_cells import BROKEN
from fullpass.pipeline.authoring.profile.number_profile import SURE_WORDS, missing_tokens
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.preprocessing.dates.read_dates import read_dates
from fullpass.preprocessing.features.feature import (
    BooleanFeature,
    CategoryFeature,
    DateFeature,
    DurationFeature,
    VectorFeature,
)
from fullpass.preprocessing.features.ids import Identity, Vocabulary
from fullpass.preprocessing.values.convert import Converted, convert_raw, read_numbers
from fullpass.preprocessing.values.list_values import is_list, length_mismatch

_SOME, _MOST = 0.01, 0.5
_UNIQUE, _FEWEST_ROWS = 0.9, 100
_BEYOND_TOP_K = 0.1
_OFTEN_A_WORD = 0.001


def check_types(sampled: SampledData) -> Iterator[Finding]:
    """The run reads columns of such a type."""
    for name, why in sampled.sample.refused.items():
        yield Finding(sampled.reader(name), why)


def check_numbers(sampled: SampledData) -> Iterator[Finding]:
    """Columns read as numbers hold numbers, or fewer other cells than would stop the run."""
    budget = sampled.loaded.config.data.bad_rows
    for name, raw in sampled.raw.items():
        if raw.type != "number" or name not in sampled.values or name in sampled.sample.refused:
            continue
        cells, values = sampled.sample.seen_numbers.get(name, sampled.sample.seen_columns[name]), sampled.values[name]
        _, wrong = read_numbers(cells, missing=sampled.source.missing_of(name), decimal=sampled.decimal)
        bad = int(wrong.sum())
        if not bad:
            continue
        such_as = _such_as(values, np.isnan(values.numbers))
        what = f"column {name}: {bad / len(cells):.2%} of cells are no number{such_as}."
        fix = _fix_of_numbers(sampled, name)
        if bad > budget.max_fraction * len(cells):
            yield Finding(
                sampled.reader(name), f"{what} The run allows {budget.max_fraction:.2%} (data.bad_rows). {fix}"
            )
        else:
            yield warning(sampled.reader(name), f"{what} Those rows are set aside.")


def check_missing_words(sampled: SampledData) -> Iterator[Finding]:
    """Every value that means "missing" is declared."""
    for name, values in sampled.values.items():
        if name not in sampled.raw or sampled.raw[name].type == "number":
            continue
        words = np.array([text in SURE_WORDS for text in values.texts], dtype=bool)
        share = values.share(words)
        if words.any() and share >= _OFTEN_A_WORD:
            yield warning(
                sampled.reader(name),
                f"column {name} holds {listed(values.examples(words))} in {share:.1%} of its rows. If that means "
                "missing, add it to data.source.missing.",
            )


def check_constants(sampled: SampledData) -> Iterator[Finding]:
    """Features read columns whose values differ."""
    for keys, _, column, values in sampled.features():
        if not values.present:
            yield warning(keys, f"column {column} has no value in any sampled row. Remove the feature.")
        elif values.distinct == 1 and values.missing_share == 0:
            yield warning(keys, f"column {column} is {listed(values.texts)} in every row. Remove the feature.")


def check_images(sampled: SampledData) -> Iterator[Finding]:
    """Image columns hold encoded images, judged by their headers, or fewer other cells than would stop the run."""
    budget = sampled.loaded.config.data.bad_rows
    for name, raw in sampled.raw.items():
        if not raw.image or name not in sampled.values:
            continue
        values = sampled.values[name]
        broken = np.array([text.startswith(BROKEN) for text in values.texts], dtype=bool)
        share = values.share(broken) if values.distinct else 0.0
        if not share:
            continue
        reasons = ", ".join(text.removeprefix(BROKEN) for text in values.examples(broken))
        what = f"column {name}: {share:.2%} of cells are no image that can be decoded ({reasons})."
        if share > budget.max_fraction:
            yield Finding(sampled.reader(name), f"{what} The run allows {budget.max_fraction:.2%} (data.bad_rows).")
        else:
            yield warning(sampled.reader(name), f"{what} Those rows are set aside.")


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
            yield from _vocabulary_findings(
                (*keys, "vocabulary"), feature.vocabulary, column, values, feature.lowercase
            )
        elif feature.identity is not None and feature.separator is None:
            yield from _identity_findings((*keys, "identity"), feature.identity, column, values)


def check_booleans(sampled: SampledData) -> Iterator[Finding]:
    """Booleans are true or false."""
    for keys, feature, column, values in sampled.features():
        if not isinstance(feature, BooleanFeature):
            continue
        words = {text.lower() for text in (*feature.true, *feature.false)}
        yield from _unfit(
            keys,
            values,
            np.array([text.lower() not in words for text in values.texts], dtype=bool),
            f"column {column}: {{share}} of values are neither true nor false{{examples}}; they count as missing.",
            "Name them under `true` and `false`, or write type: category.",
        )


def check_dates(sampled: SampledData) -> Iterator[Finding]:
    """Dates fit their format."""
    for keys, feature, column, values in sampled.features():
        if not isinstance(feature, DateFeature | DurationFeature):
            continue
        found = find_dates(values, column)
        fix = f"They fit {found.format}." if found is not None and found.format != feature.format else ""
        yield from _unfit(
            keys,
            values,
            ~read_dates(pa.array(values.texts, pa.string()), feature.format).valid,
            f"column {column}: {{share}} of values do not fit the format {feature.format}{{examples}}; they count as "
            "missing.",
            fix or "Give the format they are written in.",
        )


def check_vectors(sampled: SampledData) -> Iterator[Finding]:
    """Vectors have the declared width."""
    for name, feature in sampled.loaded.config.features.items():
        column = getattr(feature, "column", None) or name
        array = sampled.sample.columns.get(column)
        if not isinstance(feature, VectorFeature) or feature.width is None or array is None:
            continue
        if not pa.types.is_list(array.type):
            yield Finding(("features", name), f"column {column} holds no lists. Name number columns under `columns`.")
            continue
        lengths = [len(row) for row in array.to_pylist() if row is not None]
        wrong = [length for length in lengths if length != feature.width]
        if wrong:
            yield Finding(
                ("features", name, "width"),
                f"{len(wrong) / len(lengths):.1%} of the lists of {column} are not {feature.width} numbers long; one "
                f"has {wrong[0]}.",
            )


def check_lists(sampled: SampledData) -> Iterator[Finding]:
    """List columns are read as lists and their elements fit; columns read as single values hold no lists."""
    text = sampled.source.raw_text
    converted: dict[str, Converted] = {}
    for name, raw in sampled.raw.items():
        array = sampled.sample.numbers.get(name, sampled.sample.columns.get(name))
        if (
            array is None
            or name in sampled.sample.refused
            or raw.type == "vector"
            or not (raw.many or is_list(array.type))
        ):
            continue
        found = converted[name] = convert_raw(array, raw, text)
        for wrong, reason in found.problems:
            yield from _quarantined(sampled, sampled.reader(name), wrong, f"column {name}: {reason}")
    for group in sorted({raw.group for raw in sampled.raw.values() if raw.group is not None}):
        members = [name for name, raw in sampled.raw.items() if raw.group == group and name in converted]
        if len(members) > 1:
            bad = np.any([converted[name].bad for name in members], axis=0)
            wrong = length_mismatch([converted[name].flat for name in members]) & ~bad
            what = f"columns {' and '.join(members)}: lists of different lengths in one row"
            yield from _quarantined(sampled, sampled.reader(members[0]), wrong, what)


def _quarantined(sampled: SampledData, keys: tuple[str | int, ...], wrong: np.ndarray, what: str) -> Iterator[Finding]:
    """Yields a finding for rows that Ingest sets aside: an error if they exceed `data.bad_rows`."""
    share, budget = float(wrong.mean()) if len(wrong) else 0.0, sampled.loaded.config.data.bad_rows
    if share > budget.max_fraction:
        allowed = f"the run allows {budget.max_fraction:.2%} (data.bad_rows)"
        yield Finding(keys, f"{what}, in {share:.2%} of rows; {allowed}.")
    elif share:
        yield warning(keys, f"{what}, in {share:.2%} of rows, which are set aside.")


def _unfit(
    keys: tuple[str | int, ...], values: ValueCounts, wrong: np.ndarray, message: str, fix: str
) -> Iterator[Finding]:
    """Yields a finding for values that do not fit: an error if they are the majority."""
    share = values.share(wrong)
    if share <= _SOME and not (share and values.distinct <= 2):
        return
    text = message.format(share=f"{share:.1%}", examples=_such_as(values, wrong))
    yield Finding(keys, f"{text} {fix}", "error" if share > _MOST else "warning")


def _such_as(values: ValueCounts, wrong: np.ndarray) -> str:
    examples = listed(values.examples(wrong))
    return f", such as {examples}" if examples else ""


def _fix_of_numbers(sampled: SampledData, name: str) -> str:
    tokens = missing_tokens(sampled.values[name])
    if tokens:
        return f"If {listed(tokens[:3])} means missing, add it to data.source.missing."
    return "Write type: category, or read them with an expression: number(...) under data.derive."


def _vocabulary_findings(
    keys: tuple[str | int, ...], vocabulary: Vocabulary, column: str, values: ValueCounts, lowercase: bool
) -> Iterator[Finding]:
    if vocabulary.tokens is not None:
        tokens = set(vocabulary.tokens)
        unknown = np.array([(t.lower() if lowercase else t) not in tokens for t in values.texts], dtype=bool)
        message = f"{{share}} of values of {column} are none of the tokens{{examples}}; they share the OOV buckets."
        yield from _unfit((*keys, "tokens"), values, unknown, message, "Add them to tokens.")
    elif vocabulary.top_k is not None and values.distinct > 2 * vocabulary.top_k:
        beyond = float(values.counts[vocabulary.top_k :].sum() / values.present)
        if beyond > _BEYOND_TOP_K:
            yield warning(
                (*keys, "top_k"),
                f"{values.distinct:,} values of {column} in {values.present:,} rows are far above top_k: {beyond:.0%} "
                "of rows get no id of their own. Raise top_k, or write "
                f"hash: {{buckets: {10 ** len(str(values.distinct))}}}.",
            )


def _identity_findings(
    keys: tuple[str | int, ...], identity: Identity, column: str, values: ValueCounts
) -> Iterator[Finding]:
    numbers = values.numbers
    outside = ~((numbers >= 0) & (numbers < identity.size) & (numbers % 1 == 0))
    message = (
        f"{{share}} of values of {column} are not whole numbers 0 .. {identity.size - 1}{{examples}}; they get id 1."
    )
    yield from _unfit(keys, values, outside, message, "Raise size, or write type: category alone.")
