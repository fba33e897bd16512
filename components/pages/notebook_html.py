"""What a notebook shows of an object, as HTML: facts and tables, escaped, readable on a light and a dark page.

A result that is a page itself is shown in a frame of its own.
"""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup, escape

from fullpass.base.direction_marks import with_marks_shown
from fullpass.base.files import write_atomically
from fullpass.base.metric_text import WHOLE, metric_text
from fullpass.components.pages.vega import COLORS

if TYPE_CHECKING:
    import pandas as pd

GOOD, BAD, QUIET = "color:#15935a", "color:#e04f4f", "opacity:0.65"
"""Styles that both pages can show; everything else has the colors of the page."""
_WIDE, _TALL = 400, 120
"""Pixels of a chart of losses."""
_CELL = 'style="text-align:left;vertical-align:top"'


def block(title: str, *parts: str, style: str = "") -> str:
    """Returns a title with its parts below.

    Args:
        title: The title, as text.
        parts: HTML from the functions of this module; other text is escaped.
        style: The style of the title.
    """
    return str(
        Markup("<div><b style='{}'>{}</b>{}</div>").format(style, _clean(title), Markup("").join(map(_clean, parts)))
    )


def facts(named: Iterable[tuple[str, object]]) -> Markup:
    """Returns names and values as a table without a heading; an empty value is left out."""
    rows = [(Markup('<span style="{}">{}</span>').format(QUIET, _clean(name)), value) for name, value in named]
    return table((), [row for row in rows if row[1] not in (None, "")])


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Returns a table; cells are text, which is escaped, or Markup."""
    head = Markup("").join(Markup(f"<th {_CELL}>{{}}</th>").format(_clean(heading)) for heading in headings)
    lines = [Markup("").join(Markup(f"<td {_CELL}>{{}}</td>").format(_clean(cell)) for cell in row) for row in rows]
    if not lines:
        return Markup("")
    body = Markup("").join(map(Markup("<tr>{}</tr>").format, [head, *lines] if headings else lines))
    return Markup('<table style="color:inherit">{}</table>').format(body)


def frame(shown: "pd.DataFrame") -> Markup:
    """Returns a pandas DataFrame as a table; NaN is empty, and a column of nothing else is left out."""
    known = shown.dropna(axis="columns", how="all")
    cells = known.reset_index() if known.index.names[0] else known
    rows = [[_number(cell) for cell in row] for row in cells.itertuples(index=False)]
    return table([str(name).replace("_", " ") for name in cells.columns], rows)


def details(title: str, text: str) -> Markup:
    """Returns text with its line breaks, folded below a title; "" without text."""
    if not text.strip():
        return Markup("")
    return Markup("<details><summary>{}</summary><pre>{}</pre></details>").format(_clean(title), _clean(text))


def link(path: Path) -> Markup:
    """Returns a link to a file. Notebooks follow only links that are relative to their own folder."""
    near = path.is_relative_to(Path.cwd())
    address = quote(os.path.relpath(path)) if near else path.as_uri()
    return Markup('<a style="color:inherit" href="{}" target="_blank">{}</a>').format(address, _clean(str(path)))


def loss_chart(losses: Mapping[str, Sequence[float]]) -> Markup:
    """Returns lines over epochs as SVG, which changes in place while a run goes on; empty without a finite value.

    Args:
        losses: Name, as `trees, validation` -> the loss of each epoch. Lines of one model have one color;
            those of train are thin.
    """
    finite = [value for values in losses.values() for value in values if math.isfinite(value)]
    if not finite:
        return Markup("")
    low, high, last = min(finite), max(finite), max(map(len, losses.values()))
    across, down = _WIDE / max(1, last - 1), _TALL / ((high - low) or 1.0)
    models = list(dict.fromkeys(name.rpartition(", ")[0] for name in losses))
    line = Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="{}"/>').format
    entry = Markup('<span style="color:{};font-weight:{}">{}</span> {}<br>').format
    lines, entries = [], []
    for name, values in losses.items():
        color = COLORS[models.index(name.rpartition(", ")[0]) % len(COLORS)]
        known = [(i * across, (high - value) * down) for i, value in enumerate(values) if math.isfinite(value)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in known)
        width, weight = (1, "normal") if name.endswith("train") else (2.5, "bold")
        lines.append(line(points, color, width))
        entries.append(entry(color, weight, _clean(name), metric_text(values[-1])))
    text = Markup('<text x="{}" y="{}" fill="currentColor" font-size="11" text-anchor="{}">{}</text>').format
    axes = (
        text(_WIDE + 6, 10, "start", metric_text(high)),
        text(_WIDE + 6, _TALL, "start", metric_text(low)),
        text(0, _TALL + 16, "start", "epoch 1"),
        text(_WIDE, _TALL + 16, "end", f"epoch {last}"),
    )
    drawn = Markup('<div><svg role="img" aria-label="loss by epoch" width="{}" height="{}">{}</svg><br>{}</div>')
    return drawn.format(_WIDE + 70, _TALL + 20, Markup("").join((*lines, *axes)), Markup("").join(entries))


def _number(cell: object) -> object:
    if not isinstance(cell, float):
        return cell
    return "" if math.isnan(cell) else f"{cell:,.4f}" if 1 <= abs(cell) < WHOLE else metric_text(cell)


def _clean(cell: object) -> Markup:
    """Returns text without marks of the writing direction, and without the lone surrogates of bytes beyond UTF-8."""
    if isinstance(cell, Markup):
        return cell
    return escape(with_marks_shown(str(cell).encode(errors="backslashreplace").decode()))


class ShownPage(ABC):
    """The base of results that have a page, a title, and JSON data."""

    @property
    @abstractmethod
    def page(self) -> str:
        """The page: one HTML file without external resources, light and dark."""

    @property
    @abstractmethod
    def title(self) -> str:
        """One line about the result."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Returns the result as JSON data."""

    def write(self, file: Path | str) -> Path:
        """Writes the page and returns its path."""
        write_atomically(Path(file), self.page.encode())
        return Path(file)

    def _repr_html_(self) -> str:
        frame = Markup('<iframe srcdoc="{}" style="width:100%;height:60em;border:0"></iframe>').format(self.page)
        return block(self.title, frame)
