"""Finds the separator of cells that hold several values, and tells lists of numbers from written numbers."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from fullpass.pipeline.authoring.profile.value_counts import ValueCounts

_SEPARATORS = ("|", ";", ",", " ")
_FEWEST_ROWS = 50
_LOOKED_AT = 5000
_CODES = re.compile(r"[A-Za-z]?\d+[A-Za-z]?( [A-Za-z]?\d+[A-Za-z]?)*", re.ASCII)
"""Cells that a blank may separate; it also separates words."""
_BEFORE, _BEHIND = re.compile(r"^[^0-9]+"), re.compile(r"(\.[0-9]+)?[^0-9]*$")
_ENOUGH = 5
_MOSTLY = 0.95

Cells = Sequence[Sequence[str]]


def list_separator(values: ValueCounts) -> str | None:
    """Returns the separator that splits cells into several values each, or None.

    The number of values must differ between cells, and values must repeat. Neither sentences nor "city, state" nor
    numbers with thousands signs or a decimal comma qualify.
    """
    if values.present < _FEWEST_ROWS:
        return None
    texts, weights = values.texts[:_LOOKED_AT], values.counts[:_LOOKED_AT]
    for separator in _SEPARATORS:
        if not any(separator in text for text in texts):
            continue
        if separator == " " and not all(_CODES.fullmatch(text) for text in texts):
            continue
        cells = [tuple(token.strip() for token in text.split(separator)) for text in texts]
        if _differ(cells, weights) and _repeat(cells, weights) and not _are_numbers(cells, weights, separator):
            is_spaced = separator != " " and all(t.count(separator) == t.count(f"{separator} ") for t in texts)
            return f"{separator} " if is_spaced else separator
    return None


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
    if _rows(several, lambda cell: all(map(_is_digits, cell))) < _MOSTLY * rows:
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


def _is_digits(token: str) -> bool:
    return token.isascii() and token.isdigit()


def _without_signs(cell: Sequence[str]) -> Sequence[str]:
    """Returns the parts of a cell without a currency in front, and without decimals and a unit behind."""
    return _BEFORE.sub("", cell[0]), *cell[1:-1], _BEHIND.sub("", cell[-1])


def _in_thousands(cell: Sequence[str]) -> bool:
    return len(cell[0]) <= 3 and cell[0][0] != "0" and all(len(token) == 3 for token in cell[1:])
