"""The charts that several pages have, from numbers to Vega-Lite specifications."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from fullpass.components.pages.vega import BAD, BAR, COLORS, QUIET, SWITCH, SWITCHED, ZOOM, chart, colors, small_chart

MILLISECONDS = 86_400_000
"""Of a day."""
DASHED = {"type": "rule", "strokeDash": [3, 3], "opacity": 0.5}
"""The mark of a value that others are compared with."""


def number(field: str, title: str | None = None, **more: object) -> dict[str, Any]:
    """Returns the encoding of a field of numbers. more: further properties, such as `axis`."""
    return {"field": field, "type": "quantitative", **({"title": title} if title else {}), **more}


def name(field: str, title: str | None = None, **more: object) -> dict[str, Any]:
    """Returns the encoding of a field of names, in the order of the data."""
    return {**number(field, title, **more), "type": "nominal", "sort": None}


def day(field: str, title: str | None = None, **more: object) -> dict[str, Any]:
    """Returns the encoding of a field of moments in UTC, in milliseconds since 1970."""
    return {**number(field, title, **more), "type": "temporal", "scale": {"type": "utc"}}


def histogram(bars: Sequence[Mapping[str, Any]], *, label: str) -> Markup:
    """Returns numbers of rows as small bars.

    Args:
        bars: `rows` with the ends of a bin, `from` and `to`, or with a `value`.
    """
    if not any(bar["rows"] for bar in bars):
        return Markup("")
    rows = number("rows", axis=None)
    bins = {"x": number("from", bin="binned", axis=None, scale={"zero": False, "nice": False}), "x2": {"field": "to"}}
    x = {"x": name("value", axis=None)} if "value" in bars[0] else bins
    told = [name(key) if key == "value" else number(key, format=",") for key in bars[0]]
    encoding = {**x, "y": rows, "tooltip": told}
    size = {"width": 120, "height": 28}
    return small_chart({"data": {"values": bars}, **size, "mark": "bar", "encoding": encoding}, label=label)


def line_chart(series: Mapping[str, Sequence[float]], *, y: str, label: str, marks: Sequence[int] = ()) -> Markup:
    """Returns one line per series over epochs 1, 2, ...; values that are not finite are omitted.

    Args:
        series: Name -> values; all non-empty.
        y: What the values are.
        marks: Epochs with a dashed vertical line.
    """
    values = [
        {"epoch": i, y: value, "series": one}
        for one, of in series.items()
        for i, value in enumerate(of, 1)
        if math.isfinite(value)
    ]
    if not values:
        return Markup("")
    x = number("epoch", axis={"tickMinStep": 1, "format": "d"}, scale={"zero": False, "nice": False})
    lines = {
        "mark": {"type": "line", "point": True, "tooltip": True},
        "params": [ZOOM, SWITCH],
        "encoding": {
            "x": x,
            "y": number(y, scale={"zero": False}),
            "color": name("series", scale=colors(list(series))),
            "opacity": SWITCHED,
        },
    }
    layers = [lines, {"data": {"values": [{"epoch": m} for m in marks]}, "mark": DASHED, "encoding": {"x": x}}]
    return chart({"data": {"values": values}, "width": "container", "layer": layers[: 1 + bool(marks)]}, label=label)


def limit_chart(values: Mapping[str, float], limit: float, crossed: Collection[str], *, label: str) -> Markup:
    """Returns values by day as dots over a dashed limit, red where it is crossed; the first crossed day is named.

    Args:
        values: Day -> value; those that are not finite are omitted.
        limit: NaN if there is none.
    """
    if not any(map(math.isfinite, values.values())):
        return Markup("")
    states = ("within its limit", "beyond its limit")
    rows = [{"day": day, "value": value, "state": states[day in crossed]} for day, value in values.items()]
    x = name("day", axis={"labelAngle": 0, "labelOverlap": "greedy", "grid": False}, title="day")
    state = name("state", scale={"domain": states, "range": [COLORS[0], BAD]}, legend=None)
    y = number("value", scale={"zero": False})
    dots = {"mark": {"type": "point", "size": 40, "tooltip": True}, "encoding": {"x": x, "y": y, "color": state}}
    first = [{"day": day, "value": values[day]} for day in values if day in crossed][:1]
    begin = {
        "data": {"values": first},
        "mark": {"type": "text", "dy": -10, "color": BAD},
        "encoding": {"x": x, "y": y, "text": name("day")},
    }
    layers = [dots, *([begin] if first else []), *([_at(limit)] if math.isfinite(limit) else [])]
    return chart({"data": {"values": rows}, "width": "container", "height": 110, "layer": layers}, label=label)


def _at(y: float) -> dict[str, Any]:
    return {"mark": DASHED, "encoding": {"y": {"datum": y}}}


def bar_chart(
    values: Mapping[str, float], *, unit: str, label: str, reach: Mapping[str, float] | None = None
) -> Markup:
    """Returns one horizontal bar per entry.

    Args:
        values: Name -> a value that is not negative.
        unit: What the values are, which the axis says.
        reach: Name -> half the width of the interval around its value.
    """
    ends = {one: (values[one] - far, values[one] + far) for one, far in (reach or {}).items()}
    rows = [
        {"name": one, unit: value, **(dict(zip(("low", "high"), ends[one], strict=True)) if ends else {})}
        for one, value in values.items()
    ]
    y = name("name", axis={"title": None, "labelLimit": 170})
    bars = {"mark": {"type": "bar", "tooltip": True}, "encoding": {"y": y, "x": number(unit)}}
    interval = {"mark": "rule", "encoding": {"y": y, "x": number("low", unit), "x2": {"field": "high"}}}
    layers = [bars, interval] if ends else [bars]
    size = {"width": "container", "height": BAR * len(values)}
    return chart({"data": {"values": rows}, **size, "layer": layers}, label=label)


def paired_bars(names: Sequence[str], before: Sequence[float], now: Sequence[float], *, label: str) -> Markup:
    """Returns two horizontal bars per entry: `before` above, `now` below.

    Args:
        before, now: Shares [n], 0 to 1.
    """
    sides = {"before": before, "now": now}
    rows = [
        {"value": one, "series": side, "share of rows": share}
        for side, shares in sides.items()
        for one, share in zip(names, shares, strict=True)
    ]
    encoding = {
        "y": name("value", axis={"title": None, "labelLimit": 170}),
        "yOffset": name("series"),
        "x": number("share of rows", axis={"format": "%"}),
        "color": name("series", scale={"domain": list(sides), "range": [QUIET, COLORS[0]]}),
        "tooltip": [name("value"), name("series"), number("share of rows", format=".1%")],
    }
    size = {"width": "container", "height": BAR * len(names)}
    return chart({"data": {"values": rows}, **size, "mark": "bar", "encoding": encoding}, label=label)


def short_label(text: str, most: int = 20) -> str:
    """Returns a text of at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
