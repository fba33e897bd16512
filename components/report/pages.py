"""The templates of the report's pages: HTML without scripts, fonts or addresses; whatever the data says is escaped."""

from pathlib import Path

import jinja2
from markupsafe import Markup

from components.report.charts import STYLE


def render_page(template: str, **facts: object) -> str:
    """Returns a page.

    Args:
        template: a file of this folder.
        facts: what the template names.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent, encoding="utf-8"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(chart_style=Markup(STYLE), **facts)
