"""Finds how cells are written: numbers with thousands signs, currency, unit or K for thousands, and lists of values."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.base.errors import listed
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.expressions.number_text import (
    BLANKS,
    BOUND,
    MINUS,
    NOTE,
    NUMBER,
    SPREAD,
    STYLES,
    SUMS,
    decimal_sign,
    number_text,
)
from fullpass.preprocessing.list_text import LIST_EXAMPLE, split_items
from fullpass.preprocessing.values.written_values import read_written

_CURRENCIES = frozenset(
    "USD EUR GBP CHF JPY CNY RMB INR AUD CAD NZD HKD SGD BRL MXN RUB SEK NOK DKK PLN CZK HUF TRY KRW ZAR THB IDR "
    "Rs Rs. R$ US$ A$ C$ CA$ AU$ NZ$ HK$ S$ kr kr. zł Kč Ft lei RM Rp Euro euro euros dollars".split()
)
_INSIDE = f"[0-9.,'\u2019{BLANKS}]"
_PARTS = re.compile(rf"([^0-9]*)([0-9](?:{_INSIDE}*[0-9])?(?:[eE][+-]?[0-9]+)?)([^0-9]*)")
_LOOKS_LIKE = f"^(?:{_PARTS.pattern})$"
_SHORT = "^[^0-9]{0,20}[0-9].{0,60}$"
_MARKS = {
    "text": re.compile("()['\u2019](.*)"),
    "bound": re.compile(rf"()[{BLANKS}]*{BOUND}(.*)"),
    "note": re.compile(rf"(.*[0-9].*?)(?:[{BLANKS}]*{NOTE})+([{BLANKS}]*)"),
    "spread": re.compile(rf"(.*[0-9])[{BLANKS}]*{SPREAD}[{BLANKS}]*[0-9.,]+(.*)"),
    "no decimals": re.compile(rf"(.*[0-9])[.,][{MINUS}](.*)"),
    "minus": re.compile(rf"([^({MINUS}]*[0-9])[{BLANKS}]*[{MINUS}]([^0-9{MINUS}]*)"),
}
"""Mark of a number -> the cells that have it; the groups are the rest."""
_IN_EXAMPLE = {"bound": "<", "note": "[1]", "spread": "\u00b10.1", "minus": "-"}
_NEGATIVE = re.compile(rf"[^0-9]*[{MINUS}(][^0-9]*[0-9].*")
_FEWEST_MARKED = 2
_TWO_NUMBERS = r"[0-9][^0-9.]+[0-9]"
_SOME_PARTS, _MANY_WORDS = 0.05, 0.5
_DIGITS = re.compile("[0-9]+")
_BEGINS_WITH_DIGITS = re.compile(r"[^A-Za-z0-9]{0,3}[0-9]")
_FORMS_SHOWN, _COMMON_FORM, _MOSTLY_DIGITS = 3, 0.05, 0.8
_MULTIPLIER = re.compile(r"([kKmMbBtT])[nN]?([^A-Za-z]*)")
_NO_UNIT = re.compile(rf"^[.,]|['\\{MINUS}]")
"""What a unit does not hold: it is no ending of a file name, and fits into an example."""
_ALONE_A_UNIT = frozenset("mbt")
"""Letters that are a unit (metre, byte, tonne) if no other multiplier is in the column."""
_FEWEST_WITH_UNIT = 10
_UNIT = re.compile(r"(?!(?:st|nd|rd|th)$)[^\W\d_]{1,8}|%")
"""A unit, and no ordinal."""
_RARE_UNIT, _MOST_UNITS = 0.01, 6
_SEPARATORS = ("|", ";", ",", " ")
_FEWEST_ROWS = 50
_LOOKED_AT = 5000
_CODES = re.compile(r"[A-Za-z]?\d+[A-Za-z]?( [A-Za-z]?\d+[A-Za-z]?)*", re.ASCII)
"""Cells that a blank may separate; it also separates words."""
_BEFORE, _BEHIND = re.compile(r"^[^0-9]+"), re.compile(r"(\.[0-9]+)?[^0-9]*$")
_NUMBER = re.compile(NUMBER)
_ENOUGH = 5
_MOSTLY = 0.95

Cells = Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class WrittenNumbers:
    """The numbers of a text column.

    Attributes:
        like: An example for `number(text, like)`.
        numbers: float64 [values], the number that the expression reads from each value; NaN where it reads none.
    """

    like: str
    numbers: np.ndarray

    @property
    def decimal(self) -> str:
        """The decimal sign."""
        return decimal_sign(self.like)


@rule("written numbers")
def find_written(values: ValueCounts, *, enough: float = _MOSTLY) -> WrittenNumbers | None:
    """Returns how the numbers of a column are written; None if fewer than `enough` of the rows hold such numbers.

    Of several ways the one that fits most rows wins. A column of lists, of numbers in several currencies or units, or
    of numbers of which only some are percentages has none.
    """
    texts = pa.array(values.texts, pa.string())
    if not values.distinct or _share(values, texts, _SHORT) < enough:
        return None
    bare, marks = _without_marks(values)
    if _share(values, pa.array(bare.texts, pa.string()), _LOOKS_LIKE) < enough or list_separator(bare) is not None:
        return None
    signs = _signs(bare)
    if signs is None:
        return None
    before, after = signs
    before, between = marks.get("bound", "") + before, marks.get("spread", "") + marks.get("minus", "")
    after += marks.get("note", "")
    styles = _styles(bare, pa.array(bare.texts, pa.string()))
    likes = {style: f"{before}{style}{between}{after}" for style in styles}
    shares = {style: _share(values, texts, f"^{number_text(like).pattern}$") for style, like in likes.items()}
    if shares.get("1234.5", 0.0) >= _MOSTLY:
        shares = {style: share for style, share in shares.items() if style[-2] == "." or _has_groups(values, style)}
    best = max(shares, key=lambda style: shares[style])
    if shares[best] < enough:
        return None
    return WrittenNumbers(likes[best], read_written(values.texts, likes[best]))


def find_form(values: ValueCounts, *, enough: float = _MOSTLY) -> WrittenNumbers | None:
    """Returns how numbers with one part or several parts are written; see `find_sums` and `find_written`."""
    return find_sums(values, enough=enough) or find_written(values, enough=enough)


@rule("durations and lengths")
def find_sums(values: ValueCounts, *, enough: float = _MOSTLY, is_duration: bool = False) -> WrittenNumbers | None:
    """Returns how durations, or feet and inches, are written; None if fewer than `enough` of the rows hold such.

    Args:
        enough: Share of the rows.
        is_duration: Whether the column's name says that it holds durations: then 1:50 is one, and no time of a day.
    """
    texts = pa.array(values.texts, pa.string())
    if not values.distinct or _share(values, texts, _SHORT) < enough:
        return None
    for like in SUMS:
        if _share(values, texts, f"^{number_text(like).pattern}$") < enough:
            continue
        several, words = _share(values, texts, _TWO_NUMBERS), _share(values, texts, "[^0-9]$")
        if _share(values, texts, "[A-Za-z]{2}") >= _MANY_WORDS:
            several = max(several, _share_of_second_word(values))
        if (several >= _SOME_PARTS or like.startswith("P")) and (words >= _MANY_WORDS or is_duration or ":" in like):
            return WrittenNumbers(like, read_written(values.texts, like))
    return None


def _share_of_second_word(values: ValueCounts) -> float:
    """Returns the share of rows with the second most frequent word behind a number, by its first letter."""
    words = Counter[str]()
    for text, rows in zip(values.texts, values.counts.tolist(), strict=True):
        words["".join(c for c in text.lower() if c.isalpha())[:1]] += rows
    return words.most_common(2)[1][1] / values.present if len(words) > 1 else 0.0


@rule("forms of digits", otherwise="")
def number_forms(values: ValueCounts) -> str:
    """Returns the three most frequent forms of cells that are mostly digits and a mark, with 9 for digits; else ""."""
    texts, weights = values.texts[:_LOOKED_AT], values.counts[:_LOOKED_AT]
    forms, fitting = Counter[str](), 0
    for text, rows in zip(texts, weights.tolist(), strict=True):
        if _BEGINS_WITH_DIGITS.match(text) and 2 * sum(c.isdigit() for c in text) >= len("".join(text.split())):
            fitting += rows
            forms[_DIGITS.sub("9", text)] += rows
    total = int(weights.sum())
    common = [(form, rows / total) for form, rows in forms.most_common(_FORMS_SHOWN)]
    if fitting < _MOSTLY_DIGITS * total or not any(s >= _COMMON_FORM for form, s in common if form != "9"):
        return ""
    return ", ".join(f"{form} ({share:.0%})" for form, share in common)


def _without_marks(values: ValueCounts) -> tuple[ValueCounts, dict[str, str]]:
    """Returns the values without bounds, notes, uncertainties and minus signs behind them, and the marks of an example.

    A mark of a single row stays, and so does a minus behind a number if more numbers have one before it.
    """
    marks: dict[str, str] = {}
    for name, pattern in _MARKS.items():
        rests = [match[1] + match[2] if (match := pattern.fullmatch(text)) else None for text in values.texts]
        has_mark = np.array([rest is not None for rest in rests], dtype=bool)
        rows = values.counts[has_mark].sum()
        before = values.counts[values.where(lambda text: _NEGATIVE.fullmatch(text) is not None)].sum()
        if rows < _FEWEST_MARKED or (name == "minus" and before >= rows):
            continue
        if name in ("bound", "note", "spread") and values.distinct < _FEWEST_WITH_UNIT:  # <=50K and >50K are classes
            continue
        texts = tuple(text if rest is None else rest for text, rest in zip(values.texts, rests, strict=True))
        values = replace(values, texts=texts)
        if name in _IN_EXAMPLE:
            marks[name] = _IN_EXAMPLE[name]
    return values, marks


def _styles(values: ValueCounts, texts: pa.Array) -> list[str]:
    """Returns the styles to try: no decimal comma if nearly every comma stands before a group of three digits."""
    if values.decimal == ",":
        return [style for style in STYLES if style[-2] == ","]
    commas = pc.match_substring(texts, ",").to_numpy(zero_copy_only=False)
    groups = r"^[^0-9,]*[1-9][0-9]{0,2}(,[0-9]{2,3})*,[0-9]{3}([^0-9,].*)?$"
    grouped = pc.match_substring_regex(texts, groups).to_numpy(zero_copy_only=False)
    rows = values.counts[commas].sum()
    if rows and values.counts[commas & grouped].sum() >= _MOSTLY * rows:
        return [style for style in STYLES if style[-2] == "."]
    return list(STYLES)


def _has_groups(values: ValueCounts, style: str) -> bool:
    """Returns whether a thousands sign stands before a second group or a decimal comma, where no point can stand."""
    sign = re.escape(style[1]) if not style[1].isdigit() else "$."
    return any(re.search(rf"[0-9]{sign}[0-9]{{3}}({sign}[0-9]{{3}}|,[0-9])", text) for text in values.texts)


def _signs(values: ValueCounts) -> tuple[str, str] | None:
    """Returns the currency before and the unit after the numbers, "" for none; None if they differ between cells."""
    heads, tails = Counter[str](), Counter[str]()
    for head, number, tail, rows in _parts(values):
        heads[head] += rows
        if tail or number.strip("0.,"):
            tails[tail] += rows
    whole = tails.total()
    before = max(heads.keys() - {""}, key=lambda head: heads[head], default="")
    if before and not _is_currency(before):
        return None
    multiplier = _multiplier(tails)
    after = multiplier or max(tails.keys() - {""}, key=lambda tail: tails[tail], default="")
    if multiplier or after in ("", "+"):
        return before, after
    if _is_currency(after):
        return before, f" {after}"
    if (
        _NO_UNIT.search(after)
        or tails[after] < _MOSTLY * whole
        or (after != "%" and values.distinct < _FEWEST_WITH_UNIT)
    ):
        return None
    return before, after if after == "%" else f" {after}"


def _parts(values: ValueCounts) -> Iterator[tuple[str, str, str, int]]:
    """Yields what stands before, in and after the number of a cell, without blanks or minus, and its number of rows."""
    for text, rows in zip(values.texts[:_LOOKED_AT], values.counts[:_LOOKED_AT].tolist(), strict=True):
        if (match := _PARTS.fullmatch(text)) is not None:
            head = match.group(1).strip(f"{BLANKS}+(" + MINUS.replace("\\", ""))
            head = head if head in _CURRENCIES else head.rstrip(".,")
            yield head, match.group(2), match.group(3).strip(f"{BLANKS})"), rows


@rule("several units", otherwise="")
def several_units(values: ValueCounts) -> str:
    """Returns the units or currencies of numbers, for people, if they differ between cells; else ""."""
    units = Counter[str]()
    for head, _, tail, rows in _parts(values):
        units[head or tail] += rows
        if head and not _is_currency(head):
            return ""
    rare = _RARE_UNIT * units.total()
    common = [unit for unit, rows in units.most_common() if rows >= rare]
    named = all(not unit or _is_currency(unit) or _UNIT.fullmatch(unit) for unit in common)
    is_code = all(len(unit) < 2 and not _is_currency(unit) for unit in common)  # 12A is a seat
    are_few = 1 < len(common) <= _MOST_UNITS and units.total() >= _MOSTLY * values.counts[:_LOOKED_AT].sum()
    if not are_few or not named or is_code or values.distinct < _FEWEST_WITH_UNIT:
        return ""
    return listed([unit or "none" for unit in common])


@rule("K for thousands", otherwise="")
def _multiplier(tails: Counter[str]) -> str:
    """Returns "K" and the sign behind it if letters such as k and M multiply the numbers; else ""."""
    found = {tail: match for tail in tails if (match := _MULTIPLIER.fullmatch(tail))}
    letters = {match.group(1) for match in found.values()}
    if not letters or letters <= _ALONE_A_UNIT and len(letters) == 1:
        return ""
    rows = sum(tails[tail] for tail in found)
    if rows < _MOSTLY * sum(rows for tail, rows in tails.items() if tail and not _is_currency(tail)):
        return ""
    behind = Counter({match.group(2): tails[tail] for tail, match in found.items()})
    return "K" + max(behind, key=lambda sign: behind[sign]).strip(BLANKS)


def _is_currency(text: str) -> bool:
    return text in _CURRENCIES or (len(text) == 1 and unicodedata.category(text) == "Sc")


def _share(values: ValueCounts, texts: pa.Array, pattern: str) -> float:
    return values.share(pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False).astype(bool))


@rule("several values in a cell")
def list_separator(values: ValueCounts) -> str | None:
    """Returns the separator that splits cells into several values each, or None.

    The number of values must differ between cells, and values must repeat. Neither sentences nor "city, state" nor
    numbers with thousands signs or a decimal comma qualify.
    """
    if values.present < _FEWEST_ROWS:
        return None
    texts, weights = values.texts[:_LOOKED_AT], values.counts[:_LOOKED_AT]
    all_texts = "".join(texts)
    for separator in _SEPARATORS:
        if separator not in all_texts:
            continue
        if separator == " " and not all(_CODES.fullmatch(text) for text in texts):
            continue
        cells = [tuple(token.strip() for token in text.split(separator)) for text in texts]
        if _differ(cells, weights) and _repeat(cells, weights) and not _are_numbers(cells, weights, separator):
            is_spaced = separator != " " and all(t.count(separator) == t.count(f"{separator} ") for t in texts)
            return f"{separator} " if is_spaced else separator
    return None


@rule("written lists")
def written_lists(values: ValueCounts) -> str | None:
    """Returns what the cells hold if nearly all are lists as Python or JSON writes them: items, or objects; else None.

    Numbers alone are no items: a list of equally many is a vector.
    """
    texts = values.texts[:_LOOKED_AT]
    if values.share(values.where(lambda text: text[:1] == "[" and text[-1:] == "]")) < _MOSTLY:
        return None
    items = [item.strip() for text in texts for item in split_items(text, LIST_EXAMPLE) if item.strip()]
    if any("{" in text or "[" in text[1:] for text in texts):
        return "objects"
    return "items" if any(not _NUMBER.fullmatch(item) for item in items) else None


def _differ(cells: Cells, weights: np.ndarray) -> bool:
    """Returns whether cells of different widths are common."""
    widths = Counter[int]()
    for cell, weight in zip(cells, weights.tolist(), strict=True):
        widths[len(cell)] += weight
    common = [width for width, rows in widths.items() if rows >= 0.05 * weights.sum()]
    return len(common) > 1 and max(common) > 1


def _repeat(cells: Cells, weights: np.ndarray) -> bool:
    tokens = Counter[str]()
    for cell, weight in zip(cells, weights.tolist(), strict=True):
        for token in cell:
            tokens[token] += weight
    words = sum(len(token.split()) for token in tokens) / len(tokens)
    return len(tokens) < len(cells) and tokens.total() / len(tokens) >= 5 and words <= 3


def _are_numbers(cells: Cells, weights: np.ndarray, separator: str) -> bool:
    """Returns whether digits with a comma or blank between them are one number each, not a list of numbers."""
    several = [(cell, weight) for cell, weight in zip(cells, weights.tolist(), strict=True) if len(cell) > 1]
    rows = sum(weight for _, weight in several)
    if separator not in ", ":
        return False
    several = [(_without_signs(cell), weight) for cell, weight in several]
    if _rows(several, lambda cell: all(re.fullmatch("[0-9]+", token) for token in cell)) < _MOSTLY * rows:
        return False
    if _rows(several, _in_thousands) >= _MOSTLY * rows:
        tails = {token for cell, _ in several for token in cell[1:]}
        known = tails | {cell[0] for cell in cells if len(cell) == 1}
        return any(tail[0] == "0" for tail in tails) or _rows(several, lambda cell: cell[0] in known) < _MOSTLY * rows
    if separator == " " or _rows(several, lambda cell: len(cell) > 2):
        return False
    return _have_decimals(cells, several, rows)


def _have_decimals(cells: Cells, several: Sequence[tuple[Sequence[str], int]], rows: int) -> bool:
    """Returns whether pairs such as 12,5 are decimals: unlike in a list, both parts can be equal."""
    heads, tails = Counter[str](), Counter[str]()
    for cell, weight in several:
        heads[cell[0]] += weight
        tails[cell[1]] += weight
    if any(len(tail) > 1 and tail[0] == "0" for tail in tails):
        return True
    expected = sum(heads[token] * tails[token] for token in heads) / rows
    if expected >= _ENOUGH:
        return _rows(several, lambda cell: cell[0] == cell[1]) > 0.2 * expected
    return not tails.keys() <= heads.keys() | {cell[0] for cell in cells if len(cell) == 1}


def _rows(cells: Sequence[tuple[Sequence[str], int]], test: Callable[[Sequence[str]], bool]) -> int:
    return sum(weight for cell, weight in cells if test(cell))


def _without_signs(cell: Sequence[str]) -> Sequence[str]:
    """Returns the parts of a cell without a currency in front, and without decimals and a unit behind."""
    return _BEFORE.sub("", cell[0]), *cell[1:-1], _BEHIND.sub("", cell[-1])


def _in_thousands(cell: Sequence[str]) -> bool:
    return len(cell[0]) <= 3 and cell[0][0] != "0" and all(len(token) == 3 for token in cell[1:])
