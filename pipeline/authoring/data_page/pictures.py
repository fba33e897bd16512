"""The picture of a column as a Vega-Lite specification: a histogram of numbers, lengths or dates, or the top values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullpass.components.data_gate.distribution import NOT_NEXT, Distribution, merge
from fullpass.components.pages.vega import COLORS, QUIET
from fullpass.pipeline.authoring.data_page.cells import Cells
from fullpass.pipeline.authoring.profile.column_profile import shown
from fullpass.pipeline.authoring.profile.strength import Target
from fullpass.pipeline.authoring.profile.value_counts import NO_VALUES, ValueCounts
from fullpass.pipeline.authoring.profile.word_orders import word_order

_WIDTH, _HEIGHT = 290, 90
"""Pixels of a picture in a table."""
_LEGEND = 26
"""Pixels of the names of two sides above a picture."""
_BINS = 24
"""Bins of a histogram, about: their width is a round number."""
_ENDS = 0.001
"""Share of the rows at each end that the first and the last bin hold, so that a far value does not flatten the rest."""
_FEW = 31
"""Different numbers up to which each has a bar of its own, as many as days of a month."""
_TOP = 10
"""Values with a bar of their own at most."""
_LONGEST = 40
"""Characters of a value that are shown."""
OTHERS = "all others"


@dataclass(frozen=True, eq=False)
class Bars:
    """The bars of a picture.

    Attributes:
        edges: float64 [bars + 1], the ends of the bins; None if each bar is a value.
        names: The values of the bars; empty for bins.
        is_date: Whether the edges are seconds since 1970.
        is_ordered: Whether the values are numbers, in their order; else words in theirs, or the commonest is the first.
    """

    edges: np.ndarray | None
    names: Sequence[str] = ()
    is_date: bool = False
    is_ordered: bool = False

    def of_values(self, cells: Cells) -> np.ndarray:
        """Returns the bar of each value, int64 [values]; -1 for none."""
        if self.edges is None:
            number = {name: index for index, name in enumerate(self.names)}
            texts = _number_names(cells.numbers) if cells.numbers is not None else cells.values.texts
            return np.array([number.get(text, -1) for text in texts], dtype=np.int64)
        assert cells.numbers is not None  # noqa: S101
        place = np.searchsorted(self.edges, cells.numbers, side="right") - 1
        return np.where(np.isfinite(cells.numbers), np.clip(place, 0, len(self.edges) - 2), -1)

    def shares(self, cells: Cells) -> np.ndarray:
        """Returns the share of all rows in each bar, float64 [bars]."""
        if self.edges is None and cells.numbers is None:
            of = cells.distribution
            counts = dict(zip(of.values, of.counts, strict=True))
            return np.array([counts.get(name, 0.0) for name in self.names]) / max(cells.values.rows, 1)
        bar = self.of_values(cells)
        size = len(self.names) if self.edges is None else len(self.edges) - 1
        return np.bincount(bar[bar >= 0], cells.values.counts[bar >= 0], size) / max(cells.values.rows, 1)

    def label_means(self, cells: Cells, target: Target) -> np.ndarray:
        """Returns the mean label of the rows of each bar, float64 [bars], NaN without any."""
        bar = np.append(self.of_values(cells), -1)[cells.values.codes]
        used = (bar >= 0) & target.known
        size = len(self.names) if self.edges is None else len(self.edges) - 1
        rows = np.bincount(bar[used], minlength=size)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.bincount(bar[used], target.y[used], size) / rows


def bars_of(sides: Sequence[Cells]) -> Bars:
    """Returns the bars on which all sides are shown."""
    every = merge([cells.distribution for cells in sides])
    is_date = sides[0].reading.what == "date"
    if sides[0].numbers is None:
        numbers = ValueCounts(every.values, np.array(every.counts), NO_VALUES.codes).numbers
        if len(numbers) > _FEW or np.isnan(numbers).any():
            order = sides[0].reading.order or word_order(every.values)
            ranks = {word: rank for rank, word in enumerate(order)}
            return Bars(None, sorted(every.values[:_TOP], key=lambda name: ranks.get(name, len(ranks))))
        return Bars(None, [every.values[index] for index in np.argsort(numbers)], is_ordered=True)
    if len(every.values) <= _FEW and not is_date:
        return Bars(None, _number_names(np.array(every.values)), is_ordered=True)
    return Bars(_edges(every, is_date=is_date), is_date=is_date)


def _edges(every: Distribution, *, is_date: bool) -> np.ndarray:
    below = np.cumsum(every.counts)
    low, high = (every.values[int(np.searchsorted(below, below[-1] * q * NOT_NEXT))] for q in (_ENDS, 1 - _ENDS))
    if high <= low:
        low, high = every.values[0], every.values[-1]
    if is_date or high <= low:
        return np.linspace(low, max(high, np.nextafter(low, np.inf)), _BINS + 1)
    step = _round_up((high - low) / _BINS)
    first, last = math.floor(low / step), max(math.ceil(high / step), math.floor(low / step) + 1)
    return np.arange(first, last + 1) * step


def _round_up(width: float) -> float:
    """Returns the smallest of 1, 2, 2.5 and 5 times a power of ten that is not below a width."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(power * digit for digit in (1, 2, 2.5, 5, 10) if power * digit >= width * NOT_NEXT)


def _number_names(numbers: np.ndarray) -> list[str]:
    return [f"{number:.9g}" for number in numbers.tolist()]


def picture(sides: Mapping[str, Cells], target: Target | None = None) -> dict[str, Any] | None:
    """Returns the picture of a column; None if no side has a value.

    Args:
        sides: Name -> cells; of two sides, those before and those now.
        target: The label, whose mean per bar is a line over the bars of one side; None for none.
    """
    if not any(cells.distribution.present for cells in sides.values()):
        return None
    bars, told = bars_of(list(sides.values())), target if target and line_of_label(target) else None
    rows: list[dict[str, Any]] = []
    for side, cells in sides.items():
        means = bars.label_means(cells, told).tolist() if told and cells.reading.separator is None else []
        for index, share in enumerate(bars.shares(cells).tolist()):
            mean = {"label": means[index]} if means else {}
            rows.append({"side": side, **_place(bars, index), "share": share, **mean})
    if bars.edges is None:
        rest: list[dict[str, Any]] = [
            {"side": name, "value": OTHERS, "share": _rest(cells, bars)} for name, cells in sides.items()
        ]
        rows += rest if any(one["share"] > 0 for one in rest) else []
        return _of_values(rows, list(sides), told, is_ordered=bars.is_ordered)
    return _of_bins(rows, list(sides), told, is_date=bars.is_date)


def _place(bars: Bars, index: int) -> dict[str, Any]:
    if bars.edges is None:
        return {"value": shown(bars.names[index], _LONGEST) or '""'}
    low, high = (float(edge) * (1000 if bars.is_date else 1) for edge in bars.edges[index : index + 2])
    return {"from": low, "to": high}


def _rest(cells: Cells, bars: Bars) -> float:
    of = cells.distribution
    shown_share = float(bars.shares(cells).sum())
    rest = of.present / max(cells.values.rows, 1) - shown_share
    return rest if rest > 1e-9 else 0.0  # noqa: PLR2004 rounding


def _of_bins(
    rows: list[dict[str, Any]], sides: Sequence[str], target: Target | None, *, is_date: bool
) -> dict[str, Any]:
    kind = {"type": "temporal" if is_date else "quantitative"}
    across = {"field": "from", **kind, "title": None, "scale": {"zero": False, "nice": False}, "axis": {"tickCount": 4}}
    bins = {
        "mark": {"type": "rect", "color": COLORS[0], "opacity": 1 if len(sides) == 1 else 0.5},
        "encoding": {
            "x": across,
            "x2": {"field": "to"},
            "y": {"field": "share", "type": "quantitative", **_SHARE},
            "y2": {"datum": 0},
            "tooltip": [{"field": "from", **kind}, {"field": "to", **kind}, *_tooltip(sides, target)],
            **_sides(sides),
        },
    }
    if target is None:
        return _spec(rows, [bins], "y", _HEIGHT)
    of_label = {
        "transform": [{"calculate": "(datum.from + datum.to) / 2", "as": "middle"}],
        "mark": {"type": "line", "color": COLORS[1], "point": {"color": COLORS[1]}},
        "encoding": {
            "x": {**across, "field": "middle"},
            "y": _label(target, "y"),
            "tooltip": [{"field": "from", **kind}, {"field": "to", **kind}, *_tooltip(sides, target)],
        },
    }
    return _spec(rows, [bins, of_label], "y", _HEIGHT)


def _of_values(
    rows: list[dict[str, Any]], sides: Sequence[str], target: Target | None, *, is_ordered: bool
) -> dict[str, Any]:
    """Returns bars that stand in the order of the values, or lie below each other with the names of the values."""
    along, up = ("x", "y") if is_ordered else ("y", "x")
    narrow = {"labelAngle": 0, "labelOverlap": True, "labelSeparation": 4}
    axis = narrow if is_ordered else {"labelLimit": 130, "labelOverlap": False}
    values = {"field": "value", "type": "nominal", "sort": None, "title": None, "axis": axis}
    tooltip = [{"field": "value", "type": "nominal"}, *_tooltip(sides, target)]
    beside = {f"{along}Offset": {"field": "side", "sort": list(sides)}} if len(sides) > 1 else {}
    bars = {
        "mark": {"type": "bar"},
        "encoding": {
            along: values,
            up: {"field": "share", "type": "quantitative", **_SHARE},
            "tooltip": tooltip,
            **_sides(sides),
            **beside,
        },
    }
    number = len({row["value"] for row in rows})
    height = _HEIGHT if is_ordered else 20 + number * (15 if len(sides) == 1 else 22)
    if target is None:
        return _spec(rows, [bars], up, height)
    of_label = {
        "mark": {"type": "point", "color": COLORS[1], "opacity": 1, "size": 40},
        "encoding": {along: values, up: _label(target, up), "tooltip": tooltip},
    }
    return _spec(rows, [bars, of_label], up, height if is_ordered else height + 20)


_SHARE = {"title": None, "axis": {"format": "%", "tickCount": 3}}


def _tooltip(sides: Sequence[str], target: Target | None) -> list[dict[str, Any]]:
    named = [{"field": "side", "type": "nominal", "title": "rows of"}] if len(sides) > 1 else []
    mean = {"field": "label", "type": "quantitative"}
    means = [{**mean, "format": _format_of(target), "title": line_of_label(target)}] if target else []
    share = {"field": "share", "type": "quantitative", "format": ".2%", "title": "share of rows"}
    return [*named, share, *means]


def _sides(sides: Sequence[str]) -> dict[str, Any]:
    if len(sides) == 1:
        return {}
    scale = {"domain": list(sides), "range": [QUIET, COLORS[0]]}
    return {"color": {"field": "side", "type": "nominal", "scale": scale, "legend": {"orient": "top"}}}


def _label(target: Target, axis: str) -> dict[str, Any]:
    looks = {"orient": {"y": "right", "x": "top"}[axis], "grid": False, "tickCount": 3, "labelColor": COLORS[1]}
    looks |= {"format": _format_of(target), "title": None}
    return {"field": "label", "type": "quantitative", "scale": {"zero": False}, "axis": looks}


def _format_of(target: Target) -> str:
    return ".1~%" if target.task == "binary" else ".4~g"


def line_of_label(target: Target) -> str:
    """Returns what the line over the bars is; empty without one."""
    what = {"binary": "share with", "regression": "mean of"}.get(target.task)
    return f"{what} {shown(target.name, 24)}" if what else ""


def _spec(rows: list[dict[str, Any]], layers: list[dict[str, Any]], own_scale: str, height: int) -> dict[str, Any]:
    return {
        "data": {"values": rows},
        "width": _WIDTH,
        "height": height + (_LEGEND if "color" in layers[0]["encoding"] else 0),
        "autosize": {"type": "fit", "contains": "padding"},
        "layer": layers,
        "resolve": {"scale": {own_scale: "independent"}},
    }
