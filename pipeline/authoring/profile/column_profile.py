"""Infers the kind of a column (number, category, date, id ...) from its values, or its name if they are unclear."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from fullpass.pipeline.authoring.profile.date_formats import Dates, find_dates
from fullpass.pipeline.authoring.profile.images import ImageShape
from fullpass.pipeline.authoring.profile.number_profile import NumberProfile, are_values, profile_numbers
from fullpass.pipeline.authoring.profile.value_counts import NO_VALUES, ValueCounts, count_computed, count_values
from fullpass.pipeline.authoring.profile.written_numbers import (
    WrittenNumbers,
    find_sums,
    find_written,
    list_separator,
    written_lists,
)
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.expressions.number_text import written_unit
from fullpass.preprocessing.features.feature import BooleanFeature
from fullpass.preprocessing.list_text import LIST_EXAMPLE
from fullpass.preprocessing.values.arrow_text import as_mask, to_text
from fullpass.preprocessing.values.list_values import flatten, is_list, lengths_of

Kind = Literal[
    "number", "written_number", "category", "categories", "boolean", "date", "text", "vector", "list",
    "image", "id", "constant", "empty", "image_path", "unreadable",
]  # fmt: skip

BOOLEAN = BooleanFeature(type="boolean")
ID_WORDS = frozenset({"id", "uuid", "guid", "key", "index", "idx", "pk", "rownum", "row", "unnamed"})
_CODE = ID_WORDS | frozenset(
    "code zone zip zipcode postcode tract type class category cat status state region district county location "
    "loc store shop product item sku carrier flight channel device gender sex race segment group cluster vendor str "
    "month mnth mth weekday wday dow day hour hr quarter qtr season grade flag fips".split()
)
_LARGEST = {"month": 12, "mnth": 12, "mth": 12, "weekday": 7, "wday": 7, "dow": 7, "day": 31, "hour": 24, "hr": 24}
"""Word for a part of a date -> largest value of that part. A larger number is a count, of days or hours for example."""
PERSON_WORDS = frozenset(
    "subject user customer client patient participant respondent account member household driver device session person "
    "student employee player".split()
)
"""Words for what rows may be of, one or several."""
COUNT_WORDS = frozenset("num count number n total amount qty quantity age price size length width weight".split())
_IMAGE = re.compile(r"\.(jpe?g|png|gif|bmp|webp|tiff?)$", re.IGNORECASE)
WITHOUT_BLANKS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]"
)
"""Letters of Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
_LETTERS_PER_WORD = 2
"""Letters of a word in scripts without blanks, on average."""
_FEW_ROWS = 20
"""Rows below which nothing is an id or a text: values that differ say little."""
_MOST_CODES = 0.5
"""Different values per row of a column of codes; amounts have more."""
FEW_VALUES = 32
"""Up to so many different values, `init` gives each an id of its own."""
_E_CODE = re.compile(r"([0-9]+)[eE][0-9]+")
_FEWEST_E_CODES = 2
"""Rows of codes such as 84E42; one may be a power of ten."""
_NEARLY_ALL = 0.95
"""Share of the rows that fit a kind; the rest are mistakes, set aside as bad cells."""
_NEARLY_UNIQUE = 0.9
"""Different values per row of an id."""
_OF_ITS_OWN = 0.98
"""Different values per row of whole numbers that are called an id."""
_MOSTLY_MISSING = 0.01
"""Share of rows below which values, or missing ones, are an accident."""
_FEWEST_WORDS = 4
"""Mean number of words of a text; names and categories have fewer."""
_FEW_REPEATS = 3
"""Rows per value below which cells of several words are texts."""
_LONG_TEXT = 60
"""Mean characters from which on they are texts, however often they repeat."""
_WORDS_OF_TITLE = 2
"""Mean number of words of titles and queries."""
_WORD_REPEATS = 3
"""How often each word of texts occurs on average, unlike parts of ids."""
_MOSTLY_WITHOUT_BLANKS = 0.5
"""Share of the words of a text in such scripts."""
_LOOKED_AT = 5000
"""Values whose words are counted: means hardly change with more."""


@dataclass(frozen=True, eq=False)
class ColumnProfile:
    """A column: all that `init` and `check --data` know of it.

    Attributes:
        values: Its values without missing tokens; `NO_VALUES` for lists and images.
        bad: Share of present rows that do not fit the kind.
        like: An example of how a `written_number` is written; None for plain numbers.
    """

    name: str
    kind: Kind
    why: str
    values: ValueCounts = NO_VALUES
    numbers: NumberProfile | None = None
    dates: Dates | None = None
    separator: str | None = None
    width: int = 0
    image: ImageShape | None = None
    bad: float = 0.0
    like: str | None = None
    elements: "ColumnProfile | None" = None


def profile_column(name: str, values: ValueCounts) -> ColumnProfile:
    """Returns the profile of a text column.

    Example:
        >>> profile_column("paid", count_values(pa.array(["yes", "no", "yes"]))).kind
        'boolean'
    """
    if values.distinct <= 1:
        return _of_one_value(name, values)
    if (dates := find_dates(values, name)) is not None:
        return ColumnProfile(name, "date", f"dates as {dates.format}", values, dates=dates, bad=1 - dates.share)
    words = {text.lower() for text in values.texts}
    if words <= {*BOOLEAN.true, *BOOLEAN.false} and words & set(BOOLEAN.true) and words & set(BOOLEAN.false):
        return ColumnProfile(name, "boolean", f"only {' and '.join(sorted(values.texts[:2]))}", values)
    if (lists := written_lists(values)) == "items":
        why = f"lists such as {shown(max(values.texts[:2], key=len))}"
        return ColumnProfile(name, "categories", why, values, separator=LIST_EXAMPLE)
    if lists is not None:
        why = "lists of objects or lists, written as text: write one value per object to learn from them"
        return ColumnProfile(name, "unreadable", why, values)
    if _are_e_codes(values):
        return _id_or_category(name, values, "digits, some with an E among them, are codes")
    if (written := find_sums(values)) is not None:
        return _of_written(name, values, written)
    if (separator := list_separator(values)) is not None:
        why = f"several values per cell, split by {'a blank' if separator == ' ' else separator.strip()}"
        return ColumnProfile(name, "categories", why, values, separator=separator)
    if values.number_share >= _NEARLY_ALL:
        return _of_numbers(name, values)
    return _of_text(name, values)


def profile_computed(name: str, result: np.ndarray) -> ColumnProfile:
    """Returns the profile of a derived column, a result of `evaluate_arrays`."""
    values = count_computed(result)
    column = profile_column(name, values)
    if result.dtype == object or column.kind in ("boolean", "constant", "empty"):
        return column
    return ColumnProfile(name, "number", "computed", values, profile_numbers(values.row_numbers))


def profile_list_column(name: str, lists: pa.Array) -> ColumnProfile:
    """Returns the profile of a list column: a vector if all lists are equally long and hold numbers, else a list."""
    inner = lists.type.value_type
    held = lengths_of(lists)[as_mask(lists.is_valid())]
    if is_list(inner) or pa.types.is_struct(inner) or pa.types.is_map(inner):
        return ColumnProfile(name, "unreadable", f"lists of {inner}; a feature reads lists of single values")
    if not held.any():
        return ColumnProfile(name, "empty", "no value in any row")
    if (pa.types.is_floating(inner) or pa.types.is_integer(inner)) and held.min() == held.max():
        return ColumnProfile(name, "vector", f"{held[0]} numbers per row", width=int(held[0]))
    texts, _ = to_text(flatten(lists), strip=True, missing=("",))
    elements = profile_column(name, count_values(texts))
    why = f"lists of {held.min()} to {held.max()}, half of them of {int(np.median(held))} or more"
    if elements.kind in ("id", "constant", "written_number"):
        elements = ColumnProfile(name, "category", elements.why, elements.values)
    if elements.kind not in ("number", "category", "boolean", "date", "text"):
        return ColumnProfile(name, "unreadable", f"{why}; {elements.why}")
    return ColumnProfile(name, "list", why, elements=elements)


def _of_one_value(name: str, values: ValueCounts) -> ColumnProfile:
    if not values.present:
        return ColumnProfile(name, "empty", "no value in any row", values)
    if values.missing_share < _MOSTLY_MISSING or values.present < _MOSTLY_MISSING * values.rows:
        return ColumnProfile(name, "constant", f"nothing but {shown(values.texts[0])}", values)
    return ColumnProfile(name, "category", f"{shown(values.texts[0])} or nothing", values)


def _of_numbers(name: str, values: ValueCounts) -> ColumnProfile:
    bad = 1 - values.number_share
    numbers = profile_numbers(values.row_numbers)
    if numbers is None:
        raise ValueError(f"{name}: no numbers, though {values.number_share:.0%} of its values are")
    words = words_of(name)
    whole = numbers if not bad else None  # A category with another value than numbers is one of texts.
    if any(text.startswith("0") and text[1:].isdecimal() for text in values.texts):
        return _id_or_category(name, values, "digits with leading zeros are codes")
    if numbers.whole and words & ID_WORDS and hardly_repeats(values):
        return ColumnProfile(name, "id", "a different whole number in nearly every row", values, numbers)
    most = _NEARLY_UNIQUE if words & ID_WORDS else _MOST_CODES
    repeated = values.distinct <= most * values.present or values.present < _FEW_ROWS
    codes = frozenset[str]() if words & COUNT_WORDS else words & (_CODE | PERSON_WORDS)
    coded = any(numbers.high <= _LARGEST.get(word, numbers.high) for word in codes)
    if numbers.whole and numbers.low >= 0 and repeated and coded:
        return ColumnProfile(name, "category", "whole numbers that are codes", values, whole)
    if bad:
        return _of_dirty_numbers(name, values, numbers, bad)
    if values.distinct == 2 and numbers.whole:
        return ColumnProfile(name, "category", "two values", values, numbers)
    return ColumnProfile(name, "number", "numbers", values, numbers)


@rule("codes with an E", otherwise=False)
def _are_e_codes(values: ValueCounts) -> bool:
    """Returns whether 84E42 is a code: among digits alone, without a point or sign, and no power such as 5E3."""
    found = [(text, _E_CODE.fullmatch(text)) for text in values.texts]
    if not all(match or text.isdecimal() for text, match in found):
        return False
    codes = [(match, rows) for (_, match), rows in zip(found, values.counts.tolist(), strict=True) if match]
    widths = {len(text) for text, match in found if not match}
    long = sum(rows for match, rows in codes if len(match[1]) > 1 or len(match[0]) in widths)
    rows = sum(rows for _, rows in codes)
    return rows >= _FEWEST_E_CODES and 2 * long >= rows


def _of_dirty_numbers(name: str, values: ValueCounts, numbers: NumberProfile, bad: float) -> ColumnProfile:
    """Returns the profile of numbers among which a few cells are no plain numbers."""
    if numbers.whole and are_values(values, values.numbers, np.isnan(values.numbers)):
        return _id_or_category(name, values, "numbers and words that are values")
    written = find_written(values)
    if written is not None and np.isnan(written.numbers).sum() < np.isnan(values.numbers).sum():
        return _of_written(name, values, written)
    why = f"{bad:.2%} of cells are no number"
    return ColumnProfile(name, "written_number", why, values, numbers, bad=bad)


def _of_written(name: str, values: ValueCounts, written: WrittenNumbers) -> ColumnProfile:
    bad = values.share(np.isnan(written.numbers))
    unit = f", in {written_unit(written.like)}" if written_unit(written.like) else ""
    why = f"numbers written like {written.like}{unit}" + (f"; {bad:.2%} of cells are no number" if bad else "")
    numbers = profile_numbers(values.per_row(written.numbers))
    return ColumnProfile(name, "written_number", why, values, numbers, bad=bad, like=written.like)


def hardly_repeats(values: ValueCounts) -> bool:
    """Returns whether nearly every row has a value of its own, as an id has."""
    return values.present >= _FEW_ROWS and values.distinct >= _OF_ITS_OWN * values.present


def _of_text(name: str, values: ValueCounts) -> ColumnProfile:
    if values.share(values.where(lambda text: _IMAGE.search(text) is not None)) >= _NEARLY_ALL:
        return ColumnProfile(name, "image_path", "paths of images", values)
    if (written := find_written(values)) is not None:
        return _of_written(name, values, written)
    words = _mean(values, _word_count)
    repeats = values.present / values.distinct
    is_long = words >= _FEWEST_WORDS and (repeats < _FEW_REPEATS or _mean(values, len) > _LONG_TEXT)
    is_title = words >= _WORDS_OF_TITLE and values.distinct > _NEARLY_UNIQUE * values.present and _words_repeat(values)
    if (is_long or is_title) and values.distinct > _FEW_ROWS:
        script = ", written without spaces" if is_without_blanks(values) else ""
        return ColumnProfile(name, "text", f"about {words:.0f} words per row{script}", values)
    return _id_or_category(name, values, "text that repeats")


def _id_or_category(name: str, values: ValueCounts, why: str) -> ColumnProfile:
    if values.present >= _FEW_ROWS and values.distinct > _NEARLY_UNIQUE * values.present:
        return ColumnProfile(
            name, "id", f"{values.distinct:,} values in {values.present:,} rows: nearly all different", values
        )
    return ColumnProfile(name, "category", why, values)


def _words_repeat(values: ValueCounts) -> bool:
    """Returns whether the words of texts repeat, as in titles and queries, although the texts hardly do."""
    words = Counter(word.lower() for text in values.texts[:_LOOKED_AT] for word in text.split())
    return words.total() >= _WORD_REPEATS * len(words)


@rule("scripts without blanks", otherwise=False)
def is_without_blanks(values: ValueCounts) -> bool:
    """Returns whether a large part of a text column is in scripts without blanks between words."""
    letters = _mean(values, lambda text: len(WITHOUT_BLANKS.findall(text)))
    return letters / _LETTERS_PER_WORD > _MOSTLY_WITHOUT_BLANKS * _mean(values, _word_count)


def _word_count(text: str) -> int:
    """Returns the approximate number of words of a text, in any script."""
    return len(WITHOUT_BLANKS.sub(" ", text).split()) + len(WITHOUT_BLANKS.findall(text)) // _LETTERS_PER_WORD


def _mean(values: ValueCounts, measure: Callable[[str], int]) -> float:
    texts, weights = values.texts[:_LOOKED_AT], values.counts[:_LOOKED_AT]
    return float(np.average([measure(text) for text in texts], weights=weights))


def words_of(name: str) -> frozenset[str]:
    """Returns the words in a column's name.

    Example:
        >>> sorted(words_of("pickupZone_id"))
        ['id', 'pickup', 'zone']
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return frozenset(re.split(r"[\W_\d]+", apart.lower())) - {""}


def counted(number: int, one: str, several: str = "") -> str:
    """Returns a number with its noun, such as 1 sequence, 2 sequences."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def shown(text: str, longest: int = 30) -> str:
    """Returns a value for a message or comment: on one line, shortened if it is too long."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= longest else line[: longest - 3] + "..."
