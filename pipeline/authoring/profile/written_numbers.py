"""Finds how cells are written: numbers with thousands signs, currency, unit or K for thousands, and lists of values."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.expressions.number_text import (
    BLANKS,
    MINUS,
    NUMBER,
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
_MINUS_BEHIND = re.compile(rf"([^({MINUS}]*[0-9])[{BLANKS}]*[{MINUS}]([^0-9{MINUS}]*)")
"""A number with a minus behind it; the groups are the rest."""
_NEGATIVE = re.compile(rf"[^0-9]*[{MINUS}(][^0-9]*[0-9].*")
_FEWEST_MARKED = 2
"""Rows with a minus behind; a single one is a mistake."""
_TWO_NUMBERS = r"[0-9][^0-9.]+[0-9]"
_SOME_PARTS = 0.05
"""Share of durations of two parts; else the cells are numbers with one unit."""
_MANY_WORDS = 0.5
"""Share of durations that end with a letter."""
_MULTIPLIER = re.compile(r"([kKmMbBtT])[nN]?([^A-Za-z]*)")
_NO_UNIT = re.compile(rf"^[.,]|['\\{MINUS}]")
"""What a unit does not hold: it is no ending of a file name, and fits into an example."""
_ALONE_A_UNIT = frozenset("mbt")
"""Letters that are a unit (metre, byte, tonne) if no other multiplier is in the column."""
_FEWEST_WITH_UNIT = 10
"""Different numbers with a unit; fewer, such as 5 kg and 10 kg, are names."""
_SEPARATORS = ("|", ";", ",", " ")
_FEWEST_ROWS = 50
"""Rows from which on the parts of cells are compared."""
_LOOKED_AT = 5000
"""Values whose parts are compared."""
_COMMON_WIDTH = 0.05
"""Share of rows with a number of parts that is common."""
_FEWEST_REPEATS = 5
"""Mean rows of each part of a list."""
_MOST_WORDS = 3
"""Mean words of each part of a list; sentences have more."""
_TWINS = 0.2
"""Share of the pairs of equal parts that chance would give, from which on pairs are decimals."""
_CODES = re.compile(r"[A-Za-z]?\d+[A-Za-z]?( [A-Za-z]?\d+[A-Za-z]?)*", re.ASCII)
"""Cells that a blank may separate; it also separates words."""
_BEFORE, _BEHIND = re.compile(r"^[^0-9]+"), re.compile(r"(\.[0-9]+)?[^0-9]*$")
_NUMBER = re.compile(NUMBER)
_ENOUGH = 5
"""Equal pairs that chance would give, from which on their absence says something."""
_MOSTLY = 0.95
"""Share of the rows that fit the way in which numbers are written."""

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
    bare, minus = _with_minus_before(values)
    if _share(values, pa.array(bare.texts, pa.string()), _LOOKS_LIKE) < enough or list_separator(bare) is not None:
        return None
    signs = _signs(bare)
    if signs is None:
        return None
    before, after = signs
    styles = STYLES if values.decimal == "." else [style for style in STYLES if style[-2] == ","]
    likes = {style: f"{before}{style}{minus}{after}" for style in styles}
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
def find_sums(values: ValueCounts, *, enough: float = _MOSTLY) -> WrittenNumbers | None:
    """Returns how durations, or feet and inches, are written; None if fewer than `enough` of the rows hold such."""
    texts = pa.array(values.texts, pa.string())
    if not values.distinct or _share(values, texts, _SHORT) < enough:
        return None
    for like in SUMS:
        if _share(values, texts, f"^{number_text(like).pattern}$") < enough:
            continue
        several, words = _share(values, texts, _TWO_NUMBERS), _share(values, texts, "[^0-9]$")
        if several >= _SOME_PARTS and (words >= _MANY_WORDS or ":" in like):
            return WrittenNumbers(like, read_written(values.texts, like))
    return None


def _with_minus_before(values: ValueCounts) -> tuple[ValueCounts, str]:
    """Returns the values without a minus behind them, and the minus of an example; "" if more stand before a number."""
    rests = [match[1] + match[2] if (match := _MINUS_BEHIND.fullmatch(text)) else None for text in values.texts]
    behind = values.counts[np.array([rest is not None for rest in rests], dtype=bool)].sum()
    before = values.counts[values.where(lambda text: _NEGATIVE.fullmatch(text) is not None)].sum()
    if behind < _FEWEST_MARKED or before >= behind:
        return values, ""
    texts = tuple(text if rest is None else rest for text, rest in zip(values.texts, rests, strict=True))
    return replace(values, texts=texts), "-"


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
    common = [width for width, rows in widths.items() if rows >= _COMMON_WIDTH * weights.sum()]
    return len(common) > 1 and max(common) > 1


def _repeat(cells: Cells, weights: np.ndarray) -> bool:
    tokens = Counter[str]()
    for cell, weight in zip(cells, weights.tolist(), strict=True):
        for token in cell:
            tokens[token] += weight
    words = sum(len(token.split()) for token in tokens) / len(tokens)
    return len(tokens) < len(cells) and tokens.total() / len(tokens) >= _FEWEST_REPEATS and words <= _MOST_WORDS


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
        return _rows(several, lambda cell: cell[0] == cell[1]) > _TWINS * expected
    return not tails.keys() <= heads.keys() | {cell[0] for cell in cells if len(cell) == 1}


def _rows(cells: Sequence[tuple[Sequence[str], int]], test: Callable[[Sequence[str]], bool]) -> int:
    return sum(weight for cell, weight in cells if test(cell))


def _without_signs(cell: Sequence[str]) -> Sequence[str]:
    """Returns the parts of a cell without a currency in front, and without decimals and a unit behind."""
    return _BEFORE.sub("", cell[0]), *cell[1:-1], _BEHIND.sub("", cell[-1])


def _in_thousands(cell: Sequence[str]) -> bool:
    return len(cell[0]) <= 3 and cell[0][0] != "0" and all(len(token) == 3 for token in cell[1:])
