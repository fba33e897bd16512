"""The charts of the report, as inline SVG without external resources: the page can be mailed or archived."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

STYLE = (
    ":root { color-scheme: light dark } "
    "svg { max-width: 100%; height: auto; vertical-align: middle; overflow: visible } "
    "svg text { font: 11px system-ui, sans-serif; fill: currentColor }"
)
"""CSS of a page with charts, in the reader's light or dark color scheme."""
COLORS = (
    *("#3b82f6", "#d97706", "#059669", "#8b5cf6", "#dc2626"),
    *("#0891b2", "#db2777", "#65a30d", "#78716c", "#14b8a6"),
)
_BEFORE = "#9ca3af"
_RED = "#dc2626"
_MOST_DOTS = 30
"""Number of epochs whose points have dots; more of them would hide the line."""
_MARGIN_TOP, _MARGIN_BOTTOM = 10, 20
"""Pixels above a chart, half a line of text, and below it, where the epochs stand."""
_CHARACTER = 7
"""Pixels of a digit in the texts of charts, in DejaVu Sans, which is wider than most fonts."""


def histogram(counts: Sequence[float], *, label: str, width: int = 120, height: int = 28) -> Markup:
    """Returns counts [n] as bars; the tallest bar has the height of the chart. counts: not negative."""
    top = max(counts, default=0)
    if not top:
        return Markup("")
    step = width / len(counts)
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{height - tall:.1f}" width="{max(step - 1, 0.5):.1f}" height="{tall:.1f}"/>'
        for i, tall in enumerate(height * count / top for count in counts)
    )
    return svg(width, height, f'<g fill="{COLORS[0]}">{bars}</g>', label)


def line_chart(
    series: Mapping[str, Sequence[float]],
    *,
    label: str,
    marks: Sequence[int] = (),
    width: int = 350,
    height: int = 200,
) -> Markup:
    """Returns one line per series over epochs 1, 2, ...; values that are not finite are omitted.

    Args:
        series: Name -> values; all non-empty.
        marks: Epochs with a dashed vertical line.
    """
    finite = [value for values in series.values() for value in values if math.isfinite(value)]
    if not finite:
        return Markup("")
    low, high = min(finite), max(finite)
    span = high - low or 1.0
    last = max(len(values) for values in series.values())
    heights = [(high - span * part, part) for part in (0, 0.5, 1)]
    left = 8 + _CHARACTER * max(len(f"{value:.4g}") for value, _ in heights)
    inner_width, inner_height = width - left - 10, height - _MARGIN_TOP - _MARGIN_BOTTOM

    def across(index: int) -> float:
        return left + inner_width * index / max(last - 1, 1)

    def point(index: int, value: float) -> str:
        return f"{across(index):.1f},{_MARGIN_TOP + inner_height * (high - value) / span:.1f}"

    parts = [
        f'<g stroke="currentColor" stroke-opacity="0.2"><path d="M{left} {y:.1f}H{width - 10}"/></g>'
        f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>'
        for value, y in ((value, _MARGIN_TOP + inner_height * part) for value, part in heights)
    ]
    parts += [
        f'<path d="M{across(epoch - 1):.1f} {_MARGIN_TOP}v{inner_height}" stroke="currentColor" stroke-opacity="0.5" '
        'stroke-dasharray="3 3"/>'
        for epoch in marks
    ]
    for number, values in enumerate(series.values()):
        points = [point(i, value) for i, value in enumerate(values) if math.isfinite(value)]
        parts.append(svg_line(points, COLORS[number % len(COLORS)], dots=last <= _MOST_DOTS))
    for number in sorted({1, last}):
        anchor = "end" if number > 1 else "start"
        parts.append(
            f'<text x="{across(number - 1):.1f}" y="{height - 4}" text-anchor="{anchor}">epoch {number}</text>'
        )
    return figure(svg(width, height, "".join(parts), label), legend(list(series)))


def limit_chart(
    values: Mapping[str, float],
    limit: float,
    crossed: Collection[str],
    *,
    label: str,
    width: int = 350,
    height: int = 110,
) -> Markup:
    """Returns values by day as dots over a dashed limit, red where it is crossed; the first crossed day is named.

    Args:
        values: Day -> value; those that are not finite are omitted.
        limit: NaN if there is none.
    """
    finite = {name: value for name, value in values.items() if math.isfinite(value)}
    if not finite:
        return Markup("")
    heights = [*finite.values(), *([limit] if math.isfinite(limit) else [])]
    low, high = min(heights), max(heights)
    span, names = high - low or 1.0, list(values)
    left, inner = 8 + _CHARACTER * 6, height - _MARGIN_TOP - _MARGIN_BOTTOM

    def across(name: str) -> float:
        return left + (width - left - 10) * names.index(name) / max(len(names) - 1, 1)

    def up(value: float) -> float:
        return _MARGIN_TOP + inner * (high - value) / span

    parts = [
        f'<text x="{left - 6}" y="{up(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>' for value in {low, high}
    ]
    if math.isfinite(limit):
        parts.append(
            f'<path d="M{left} {up(limit):.1f}H{width - 10}" stroke="currentColor" stroke-opacity="0.5" '
            'stroke-dasharray="3 3"/>'
        )
    parts += [
        f'<circle cx="{across(name):.1f}" cy="{up(value):.1f}" r="3" fill="{_RED if name in crossed else COLORS[0]}"/>'
        for name, value in finite.items()
    ]
    first = next((name for name in names if name in crossed), None)
    marks = {names[0]: "start", names[-1]: "end", **({first: "middle"} if first is not None else {})}
    near = [name for name in marks if name != first and first and abs(across(name) - across(first)) < _CHARACTER * 12]
    parts += [
        f'<text x="{across(name):.1f}" y="{height - 4}" text-anchor="{anchor}" '
        f'fill="{_RED if name == first else "currentColor"}">{escape(name)}</text>'
        for name, anchor in marks.items()
        if name not in near
    ]
    return figure(svg(width, height, "".join(parts), label), title=label)


def bar_chart(values: Mapping[str, float], *, unit: str, label: str) -> Markup:
    """Returns one horizontal bar per entry, labeled with its value. values: name -> a value that is not negative."""
    top = max(values.values(), default=0) or 1.0
    rows = ((name, _bars([(COLORS[0], value / top)]), f"{value:.3g} {unit}".strip()) for name, value in values.items())
    return _bar_table(rows, label)


def paired_bars(names: Sequence[str], before: Sequence[float], now: Sequence[float], *, label: str) -> Markup:
    """Returns two horizontal bars per entry, labeled with their shares: `before` above, `now` below.

    Args:
        before, now: Shares [n], 0 to 1.
    """
    top = max((*before, *now), default=0) or 1.0
    rows = (
        (name, _bars([(_BEFORE, old / top), (COLORS[0], new / top)]), f"{old:.1%}, {new:.1%}")
        for name, old, new in zip(names, before, now, strict=True)
    )
    return _bar_table(rows, label)


def _bars(bars: Sequence[tuple[str, float]]) -> Markup:
    """Returns bars below each other, as wide as their cell at a share of 1. bars: color and share of each."""
    height = 12 // len(bars)
    drawn = "".join(
        f'<rect y="{i * height}" width="{100 * share:.1f}%" height="{height}" fill="{color}"/>'
        for i, (color, share) in enumerate(bars)
    )
    return Markup(f'<svg aria-hidden="true" width="100%" height="12">{drawn}</svg>')


def _bar_table(rows: Iterable[tuple[str, Markup, str]], label: str) -> Markup:
    """Returns a table of names, bars and figures. Names are text of the page, so a long one takes a second line."""
    lines = Markup("").join(Markup("<tr><th>{}</th><td>{}</td><td>{}</td></tr>").format(*row) for row in rows)
    return Markup('<table class="bars" aria-label="{}">{}</table>').format(label, lines)


def figure(chart: Markup, below: str = "", *, title: str = "") -> Markup:
    """Returns a chart with its title above and its legend below, which are text of the page."""
    caption = Markup("<figcaption>{}</figcaption>").format(title) if title else ""
    return Markup("<figure>{}{}{}</figure>").format(caption, chart, below)


def legend(names: Sequence[str]) -> Markup:
    """Returns names with the colors of their series."""
    square = '<svg aria-hidden="true" width="10" height="10"><rect width="10" height="10" fill="{}"/></svg>'
    entry = Markup(f"<span>{square} {{}}</span>")
    entries = (entry.format(COLORS[i % len(COLORS)], name) for i, name in enumerate(names))
    return Markup('<div class="legend">{}</div>').format(Markup(" ").join(entries))


@dataclass(frozen=True)
class Square:
    """The square area of a chart with its axes. side, left, top: in pixels, for the texts of the axes beside it too."""

    side: int
    left: int
    top: int = 10

    @property
    def right(self) -> int:
        return self.left + self.side

    @property
    def bottom(self) -> int:
        return self.top + self.side

    def at(self, x: float, y: float) -> str:
        """Returns the point `x,y` of two shares of the axes, from 0 at the lower left to 1."""
        return f"{self.left + self.side * x:.1f},{self.top + self.side * (1 - y):.1f}"

    def axes(self, across: tuple[float, float], up: tuple[float, float], x: str, y: str) -> str:
        """Returns the lines and texts of both axes. across, up: their ends. x, y: their names."""
        lines = "".join(
            f'<path d="M{self.at(0, share)}h{self.side}M{self.at(share, 0)}v-{self.side}" '
            'stroke="currentColor" stroke-opacity="0.15"/>'
            f'<text x="{self.left - 5}" y="{self.top + self.side * (1 - share) + 4:.1f}" text-anchor="end">'
            f"{up[0] + share * (up[1] - up[0]):.3g}</text>"
            f'<text x="{self.left + self.side * share:.1f}" y="{self.bottom + 16}" text-anchor="middle">'
            f"{across[0] + share * (across[1] - across[0]):.3g}</text>"
            for share in (0, 0.5, 1)
        )
        middle = self.top + self.side / 2
        return (
            f'{lines}<text x="{self.left + self.side / 2}" y="{self.bottom + 30}" text-anchor="middle">'
            f'{escape(x)}</text><text x="12" y="{middle}" text-anchor="middle" '
            f'transform="rotate(-90 12 {middle})">{escape(y)}</text>'
        )

    def line_across(self, start: float, end: float) -> str:
        """Returns a line across the whole area. start, end: its heights at the left and at the right, as shares."""
        return f'<path d="M{self.at(0, start)}L{self.at(1, end)}" stroke="currentColor" stroke-opacity="0.4"/>'


def svg_line(points: Sequence[str], color: str, *, dots: bool = True) -> str:
    """Returns a line through points, each `x,y`, with a dot at each of them."""
    centers = (point.split(",") for point in points if dots)
    circles = "".join(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{color}"/>' for x, y in centers)
    return f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{" ".join(points)}"/>{circles}'


def short_label(text: str, most: int = 20) -> str:
    """Returns a text of at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def svg(width: int, height: int, body: str, label: str) -> Markup:
    """Returns an SVG image; `width` and `height` are in pixels, `label` describes it for readers who cannot see it."""
    return Markup(
        f'<svg role="img" aria-label="{escape(label)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{body}</svg>'
    )
