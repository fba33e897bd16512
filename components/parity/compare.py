"""Compares features that were computed in two ways."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from preprocessing.errors import UserError

SHOWN_MISMATCHES = 3


class Tolerance(NamedTuple):
    """How far two floats may be apart, as `numpy.allclose` has it: |left - right| <= atol + rtol * |right|."""

    rtol: float
    atol: float


@dataclass(frozen=True)
class Mismatch:
    """One row that differs. row: what leads to it. left, right: the values, as text."""

    row: str
    left: str
    right: str


@dataclass(frozen=True)
class Compared:
    """One feature, computed in two ways.

    largest: largest absolute difference of numbers. mismatches: rows beyond the tolerance; examples: the first few.
    """

    feature: str
    pair: str
    rows: int
    largest: float
    mismatches: int
    examples: tuple[Mismatch, ...] = ()


def compare(
    left: Mapping[str, np.ndarray],
    right: Mapping[str, np.ndarray],
    *,
    pair: str,
    row_names: Mapping[int, str] | list[str],
    tolerance: Tolerance,
) -> list[Compared]:
    """Compares features computed in two ways, row by row.

    Args:
        left, right: feature -> [rows] or [rows, width]; both in the same row order. Rows of ids may be padded with 0
            to different widths. NaN equals NaN.
        pair: what is compared, for the report: "Beam = export".
        row_names: how to name row i.
        tolerance: between floats; everything else must be equal.

    Raises:
        UserError: A feature is on one side only.
    """
    if set(left) != set(right):
        only = sorted(set(left) ^ set(right))
        raise UserError(f"parity ({pair}): features on one side only: {', '.join(only)}.")
    return [_compare_one(name, left[name], right[name], pair, row_names, tolerance) for name in sorted(left)]


def check(compared: list[Compared]) -> None:
    """Raises UserError if anything differs, naming features and rows."""
    wrong = [c for c in compared if c.mismatches]
    if not wrong:
        return
    lines = ["training and serving do not agree:"]
    for c in wrong:
        lines.append(f"  {c.feature} ({c.pair}): {c.mismatches:,} of {c.rows:,} rows differ, by up to {c.largest:g}.")
        lines += [f"    {m.row}: {m.left} against {m.right}" for m in c.examples]
    lines.append("The model is not pushed. Look for a transform that is not deterministic, or a changed constant.")
    raise UserError("\n".join(lines))


def report_json(compared: list[Compared]) -> str:
    """Returns the report as JSON text."""
    return json.dumps([asdict(c) for c in compared], indent=1)


def _compare_one(
    name: str,
    left: np.ndarray,
    right: np.ndarray,
    pair: str,
    row_names: Mapping[int, str] | list[str],
    tolerance: Tolerance,
) -> Compared:
    if len(left) != len(right):
        raise UserError(f"parity ({pair}): {name} has {len(left)} rows on one side and {len(right)} on the other.")
    a, b = _same_width(left.reshape(len(left), -1), right.reshape(len(right), -1))
    if np.issubdtype(a.dtype, np.floating):
        a, b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):  # infinity minus itself
            difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        difference = np.where(np.isnan(difference), np.inf, difference)
        allowed = tolerance.atol + tolerance.rtol * np.where(np.isfinite(b), np.abs(b), 0.0)
        wrong = (difference > allowed).any(axis=1)
        largest = float(difference.max(initial=0.0))
    else:
        wrong = (a != b).any(axis=1)
        largest = float(wrong.any())
    rows = np.flatnonzero(wrong)
    shown = tuple(Mismatch(row_names[int(i)], _text(left[i]), _text(right[i])) for i in rows[:SHOWN_MISMATCHES])
    return Compared(name, pair, len(left), largest, len(rows), shown)


def _same_width(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    width = max(a.shape[1], b.shape[1])
    return tuple(np.pad(x, [(0, 0), (0, width - x.shape[1])]) if x.shape[1] < width else x for x in (a, b))  # type: ignore[return-value]


def _text(value: np.ndarray) -> str:
    return np.array2string(np.asarray(value), threshold=12, precision=8)
