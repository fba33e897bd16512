"""Renders the pages of the report. Each is one file without external resources, and all text from the data is escaped.

One script sorts, filters and copies tables; a page with charts has a second one that draws them, by Vega, which it
carries. The page's content security policy names the style sheet and the scripts by their digests, so a browser applies
no other style and runs no other script, and makes none from text.
"""

import base64
import hashlib
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from fullpass.base.direction_marks import with_marks_shown
from fullpass.base.metric_text import difference_text, metric_text
from fullpass.components.pages import vega

_FOLDER = Path(__file__).parent


def render_page(template: str, **facts: object) -> str:
    """Returns a page. template: name of a file in this folder."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER, encoding="utf-8"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {"digest": _digest, "metric": metric_text, "difference": difference_text, "breakable": _breakable}
    environment.filters.update(filters)
    own = {"style": "page.css", "script": "tables.js", "draw": "draw_charts.js"}
    environment.globals.update({name: Markup(_read(file)) for name, file in own.items()})
    for of_charts in (vega.has_charts, vega.bundle, vega.packed_bundle, vega.theme):
        environment.globals[of_charts.__name__] = of_charts
    page = environment.get_template(template).render(**facts)
    # Bytes of a path that are not UTF-8 are lone surrogates in Python, which cannot be encoded.
    return with_marks_shown(page.encode(errors="backslashreplace").decode())


def _read(file: str) -> str:
    return (_FOLDER / file).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Returns the digest by which a content security policy names an inline style sheet or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _breakable(name: str) -> Markup:
    """Returns the name of a column or slice, which a narrow page breaks behind underscores instead of in its words."""
    return escape(name).replace("_", Markup("_<wbr>"))
