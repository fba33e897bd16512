"""Finds how the numbers of a column are written: thousands and decimal signs, currency, unit, K for thousands."""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.pipeline.authoring.profile.list_separator import list_separator
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.preprocessing.expressions.number_text import BLANKS, MINUS, STYLES, number_text

_CURRENCIES = frozenset(
    "USD EUR GBP CHF JPY CNY RMB INR AUD CAD NZD HKD SGD BRL MXN RUB SEK NOK DKK PLN CZK HUF TRY KRW ZAR THB IDR "
    "Rs Rs. R$ US$ A$ C$ CA$ AU$ NZ$ HK$ S$ kr kr. zł Kč Ft lei RM Rp Euro euro euros dollars".split()
)
_INSIDE = f"[0-9.,'\u2019{BLANKS}]"
_PARTS = re.compile(rf"([^0-9]*)([0-9](?:{_INSIDE}*[0-9])?(?:[eE][+-]?[0-9]+)?)([^0-9]*)")
_LOOKS_LIKE = f"^(?:{_PARTS.pattern})$"
_MULTIPLIER = re.compile(r"([kKmMbBtT])[nN]?([^A-Za-z]*)")
_NO_UNIT = re.compile(rf"^[.,]|['\\{MINUS}]")
"""What a unit does not hold: it is no ending of a file name, and fits into an example."""
_ALONE_A_UNIT = frozenset("mbt")
"""Letters that are a unit (metre, byte, tonne) if no other multiplier is in the column."""
_FEWEST_WITH_UNIT = 10
_MOSTLY = 0.95
_LOOKED_AT = 5000


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
        return next(style[-2] for style in sorted(STYLES, key=len, reverse=True) if style in self.like)


def find_written(values: ValueCounts, *, enough: float = _MOSTLY) -> WrittenNumbers | None:
    """Returns how the numbers of a column are written; None if fewer than `enough` of the rows hold such numbers.

    Of several ways the one that fits most rows wins. A column of lists, of numbers in several currencies or units, or
    of numbers of which only some are percentages has none.
    """
    texts = pa.array(values.texts, pa.string())
    if not values.distinct or _share(values, texts, _LOOKS_LIKE) < enough or list_separator(values) is not None:
        return None
    signs = _signs(values)
    if signs is None:
        return None
    before, after = signs
    likes = {style: f"{before}{style}{after}" for style in _styles(values, texts)}
    shares = {style: _share(values, texts, f"^{number_text(like).pattern}$") for style, like in likes.items()}
    if shares.get("1234.5", 0.0) >= _MOSTLY:
        shares = {style: share for style, share in shares.items() if style[-2] == "." or _has_groups(values, style)}
    best = max(shares, key=lambda style: shares[style])
    if shares[best] < enough:
        return None
    form = number_text(likes[best])
    found = (form.read(text) for text in values.texts)
    return WrittenNumbers(likes[best], np.array([np.nan if number is None else number for number in found]))


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
    whole = 0
    for text, rows in zip(values.texts[:_LOOKED_AT], values.counts[:_LOOKED_AT].tolist(), strict=True):
        match = _PARTS.fullmatch(text)
        if match is None:
            continue
        head = match.group(1).strip(f"{BLANKS}+(" + MINUS.replace("\\", ""))
        heads[head if head in _CURRENCIES else head.rstrip(".,")] += rows
        tail = match.group(3).strip(f"{BLANKS})")
        if tail or match.group(2).strip("0.,"):
            tails[tail] += rows
            whole += rows
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
