"""Charts as Vega-Lite specifications, drawn by Vega in the page itself: nothing is loaded.

The bundle of Vega, Vega-Lite and their embedding comes from vl-convert, which takes more than a second to make it. It
is kept packed, in the environment or in the user's cache, so a page carries a third of its size.
"""

import base64
import gzip
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fullpass.base.direction_marks import with_marks_shown
from fullpass.base.files import write_atomically

VEGA_LITE = "6.4"
"""Version of Vega-Lite in the bundle. Notebooks draw the same specifications by their own, JupyterLab 4.6 by 5.6."""
COLORS = (
    *("#3b82f6", "#d97706", "#059669", "#8b5cf6", "#dc2626"),
    *("#0891b2", "#db2777", "#65a30d", "#78716c", "#14b8a6"),
)
"""Colors that are told apart on a light and on a dark page."""
QUIET, BAD = "#9ca3af", "#dc2626"
"""Colors of what was before, and of what is beyond its limit."""
ZOOM = {"name": "zoom", "select": {"type": "interval", "zoom": "wheel![event.ctrlKey]"}, "bind": "scales"}
"""Parameter by which a chart is dragged and zoomed; a wheel alone scrolls the page."""
SWITCH = {"name": "shown", "select": {"type": "point", "fields": ["series"]}, "bind": "legend"}
"""Parameter by which a click on the legend leaves only the series that are clicked on (with Shift, several)."""
SWITCHED = {"condition": {"param": "shown", "value": 1}, "value": 0.1}
"""The opacity of the marks of such a chart."""
OF_ENVIRONMENT = Path(sys.prefix, "share", "fullpass")
"""Where an environment has the bundle, if it was built with it."""
BAR = 18
"""Pixels of a bar, or of a line of dots, with its name."""
_TEXT = {"labelColor": "currentColor", "titleColor": "currentColor", "titleFontWeight": "normal"}
_APART = {"labelOverlap": "greedy", "labelSeparation": 12}
"""Of numbers and dates on an axis, those that would touch are left out; names are all shown."""
THEME: Mapping[str, Any] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None, "continuousHeight": 200},
    "axis": {
        **_TEXT,
        "domain": False,
        "gridColor": "currentColor",
        "gridOpacity": 0.15,
        "labelFontSize": 11,
        "labelLimit": 200,
        "tickCount": 5,
        "ticks": False,
        "labelPadding": 6,
        "titleFontSize": 11,
        "titleLimit": 200,
    },
    "axisQuantitative": _APART,
    "axisTemporal": _APART,
    "legend": {
        **_TEXT,
        "symbolOpacity": 1,
        "orient": "bottom",
        "title": None,
        "labelFontSize": 11,
        "labelLimit": 110,
        "columns": 2,
    },
    "header": _TEXT,
    "text": {"color": "currentColor"},
    "rule": {"color": "currentColor"},
    "range": {"category": list(COLORS), "heatmap": ["#3b82f600", "#3b82f6a0"]},
    "bar": {"color": COLORS[0]},
    "line": {"color": COLORS[0], "strokeWidth": 1.5},
    "point": {"color": COLORS[0], "filled": True, "size": 25},
    "area": {"color": COLORS[0]},
}
"""How all charts look: in the color of the text around them, light, dark and in print."""
_MARK = '<figure class="chart"'
"""What only `chart` writes: `<` is escaped in text of the data."""
_MOST_ROWS = 200
"""Rows of the table of values that a page without scripts shows."""


class Chart(Markup):
    """A chart of a page. JupyterLab and VS Code draw it by their own Vega if it is the result of a cell."""

    spec: Mapping[str, Any]

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        address = "https://vega.github.io/schema/vega-lite/v5.json"
        width = {"width": 400} if self.spec.get("width") == "container" else {}
        shown = {"$schema": address, "config": THEME, **_clean(self.spec), **width}
        return {"application/vnd.vegalite.v5+json": shown, "text/plain": self.spec["description"]}


def chart(spec: Mapping[str, Any], *, label: str) -> Chart:
    """Returns a chart with its label above, and its values as a table for readers without scripts or without sight.

    Args:
        spec: A Vega-Lite specification as JSON data; the rows of its table are `spec["data"]["values"]`, flat mappings.
            Its look comes from `THEME`. A `width` of "container" fills the column of the page. Names on an axis need a
            `height`, of `BAR` each: Vega-Lite warns of one by steps.
    """
    title = Markup("<figcaption>{}</figcaption>").format(label)
    table = Markup("<details><summary>values</summary>{}</details>").format(_table(spec["data"]["values"]))
    return _figure(spec, label, title, table)


def small_chart(spec: Mapping[str, Any], *, label: str) -> Chart:
    """Returns a chart inside a table or a line of text, whose words stand beside it."""
    return _figure(spec, label, Markup(""), Markup(""))


def colors(names: Sequence[str], among: Sequence[str] = ()) -> dict[str, list[str]]:
    """Returns the scale that gives each name a color.

    Args:
        among: All names of the page, whose order decides, so that a name has one color on all charts.
    """
    order = list(dict.fromkeys((*among, *names)))
    return {"domain": list(names), "range": [COLORS[order.index(one) % len(COLORS)] for one in names]}


def has_charts(body: str) -> bool:
    """Returns whether a page needs the bundle."""
    return _MARK in body


def bundle() -> str:
    """Returns the JavaScript of Vega, Vega-Lite and `vegaEmbed`."""
    return gzip.decompress(_packed()).decode()


def packed_bundle() -> str:
    """Returns the bundle as gzip in base64."""
    return base64.b64encode(_packed()).decode()


def theme() -> Markup:
    """Returns `THEME` for a script element."""
    return script_json(THEME)


@cache
def _packed() -> bytes:
    """Returns the bundle as gzip: that of the environment, else one that is made once per user."""
    of_user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "fullpass"
    for folder in (OF_ENVIRONMENT, of_user):
        with suppress(OSError):
            return (folder / _file()).read_bytes()
    return keep_bundle(of_user)


def keep_bundle(folder: Path = OF_ENVIRONMENT) -> bytes:
    """Makes the bundle, keeps it in a folder if that can be written, and returns it as gzip.

    What builds an environment or an image calls it, so that no page is the first one.
    """
    import vl_convert  # 84 MB, needed once

    made = gzip.compress(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA_LITE).encode(), mtime=0)
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / _file(), made)
    return made


def _file() -> str:
    return f"vega-{VEGA_LITE}-{version('vl-convert-python')}.js.gz"


def _figure(spec: Mapping[str, Any], label: str, above: Markup, below: Markup) -> Chart:
    whole = {"description": label, **spec}
    data = Markup('<script type="application/json">{}</script>').format(script_json(whole))
    figure = Markup('<figure class="chart" aria-label="{}">{}<div></div>{}{}</figure>')
    drawn = Chart(figure.format(label, above, data, below))
    drawn.spec = whole
    return drawn


def script_json(value: Any) -> Markup:
    """Returns JSON that a script element can hold, whatever its texts say."""
    text = json.dumps(_clean(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def _clean(value: Any) -> Any:
    """Returns JSON data without marks of the writing direction; what is not finite is null."""
    if isinstance(value, Mapping):
        return {str(key): _clean(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(one) for one in value]
    if isinstance(value, str):
        return with_marks_shown(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    names = list(dict.fromkeys(name for row in rows for name in row))
    line = Markup("<tr>{}</tr>").format
    cells = (Markup("").join(Markup("<td>{}</td>").format(_cell(row.get(n))) for n in names) for row in rows)
    head = line(Markup("").join(map(Markup("<th>{}</th>").format, names)))
    return Markup("<table>{}{}</table>").format(head, Markup("").join(map(line, islice(cells, _MOST_ROWS))))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else ""
    return "" if value is None else str(value)
