"""The charts of the report, as inline SVG without external resources: the page can be mailed or archived."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

STYLE = (
    ":root { color-scheme: light dark } svg { max-width: 100%; height: auto; vertical-align: middle } "
    "svg text { font: 11px system-ui, sans-serif; fill: currentColor }"
)
"""CSS of a page with charts, in the reader's light or dark color scheme."""
COLORS = (
    *("#3b82f6", "#d97706", "#059669", "#8b5cf6", "#dc2626"),
    *("#0891b2", "#db2777", "#65a30d", "#78716c", "#14b8a6"),
)
_MARGIN_LEFT, _MARGIN_TOP, _MARGIN_BOTTOM = 52, 10, 40
_ROW = 18


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


def line_chart(series: Mapping[str, Sequence[float]], *, label: str, width: int = 560, height: int = 220) -> Markup:
    """Returns one line per series over epochs 1, 2, ...; values that are not finite are omitted.

    Args:
        series: Name -> values; all non-empty.
    """
    finite = [value for values in series.values() for value in values if math.isfinite(value)]
    if not finite:
        return Markup("")
    low, high = min(finite), max(finite)
    span = high - low or 1.0
    last = max(len(values) for values in series.values())
    inner_width, inner_height = width - _MARGIN_LEFT - 10, height - _MARGIN_TOP - _MARGIN_BOTTOM

    def point(index: int, value: float) -> str:
        x = _MARGIN_LEFT + inner_width * index / max(last - 1, 1)
        return f"{x:.1f},{_MARGIN_TOP + inner_height * (high - value) / span:.1f}"

    parts = [
        f'<g stroke="currentColor" stroke-opacity="0.2"><path d="M{_MARGIN_LEFT} {y:.1f}H{width - 10}"/></g>'
        f'<text x="{_MARGIN_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>'
        for value, y in ((high - span * part, _MARGIN_TOP + inner_height * part) for part in (0, 0.5, 1))
    ]
    for number, (name, values) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        points = [point(i, value) for i, value in enumerate(values) if math.isfinite(value)]
        parts += [line(points, color), key(_MARGIN_LEFT + 90 * number, height - 14, color, name)]
    for number in sorted({1, last}):
        x = _MARGIN_LEFT + inner_width * (number - 1) / max(last - 1, 1)
        anchor = "end" if number > 1 else "start"
        parts.append(f'<text x="{x:.1f}" y="{height - 24}" text-anchor="{anchor}">epoch {number}</text>')
    return svg(width, height, "".join(parts), label)


def bar_chart(values: Mapping[str, float], *, unit: str, label: str, width: int = 560) -> Markup:
    """Returns one horizontal bar per entry, labeled with its value. values: name -> a value that is not negative."""
    top = max(values.values(), default=0) or 1.0
    names, figures = 150, 90
    rows = []
    for i, (name, value) in enumerate(values.items()):
        y, length = i * _ROW, (width - names - figures) * value / top
        rows.append(
            f'<text x="{names - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{names}" y="{y + 3}" width="{length:.1f}" height="{_ROW - 6}" fill="{COLORS[0]}"/>'
            f'<text x="{names + length + 6:.1f}" y="{y + 13}">{value:.3g} {escape(unit)}</text>'
        )
    return svg(width, len(values) * _ROW + 4, "".join(rows), label)


def paired_bars(names: Sequence[str], before: Sequence[float], now: Sequence[float], *, label: str) -> Markup:
    """Returns two horizontal bars per entry, labeled with their shares: `before` above, `now` below.

    Args:
        before, now: Shares [n], 0 to 1.
    """
    top = max((*before, *now), default=0) or 1.0
    width, name_width, figures, row = 560, 170, 100, 22
    parts = []
    for i, (name, *shares) in enumerate(zip(names, before, now, strict=True)):
        y = i * row
        parts.append(
            f'<text x="{name_width - 8}" y="{y + 14}" text-anchor="end">{escape(shortened(name, 24))}</text>'
            f'<text x="{width - figures + 8}" y="{y + 14}">{shares[0]:.1%}, {shares[1]:.1%}</text>'
        )
        for of, share in enumerate(shares):
            length = (width - name_width - figures) * share / top
            fill = "#9ca3af" if of == 0 else COLORS[0]
            parts.append(f'<rect x="{name_width}" y="{y + 2 + 9 * of}" width="{length:.1f}" height="8" fill="{fill}"/>')
    return svg(width, len(names) * row + 4, "".join(parts), label)


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
            f'<text x="{self.left + self.side * share:.1f}" y="{self.bottom + 13}" text-anchor="middle">'
            f"{across[0] + share * (across[1] - across[0]):.3g}</text>"
            for share in (0, 0.5, 1)
        )
        middle = self.top + self.side / 2
        return (
            f'{lines}<text x="{self.left + self.side / 2}" y="{self.bottom + 27}" text-anchor="middle">'
            f'{escape(x)}</text><text x="12" y="{middle}" text-anchor="middle" '
            f'transform="rotate(-90 12 {middle})">{escape(y)}</text>'
        )

    def line_across(self, start: float, end: float) -> str:
        """Returns a line across the whole area. start, end: its heights at the left and at the right, as shares."""
        return f'<path d="M{self.at(0, start)}L{self.at(1, end)}" stroke="currentColor" stroke-opacity="0.4"/>'


def line(points: Sequence[str], color: str, *, dots: bool = True) -> str:
    """Returns a line through points, each `x,y`, with a dot at each of them."""
    centers = (point.split(",") for point in points if dots)
    circles = "".join(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{color}"/>' for x, y in centers)
    return f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{" ".join(points)}"/>{circles}'


def key(left: float, top: float, color: str, name: str) -> str:
    """Returns an entry of a legend."""
    square = f'<rect x="{left}" y="{top}" width="10" height="10" fill="{color}"/>'
    return f'{square}<text x="{left + 14}" y="{top + 9}">{escape(name)}</text>'


def shortened(text: str, most: int = 20) -> str:
    """Returns a text of at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def svg(width: int, height: int, body: str, label: str) -> Markup:
    """Returns an SVG image; `width` and `height` are in pixels, `label` describes it for readers who cannot see it."""
    return Markup(
        f'<svg role="img" aria-label="{escape(label)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{body}</svg>'
    )
