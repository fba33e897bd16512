"""Compares any number of models with the first one, each pair on the same rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from fullpass.base.metric_text import metric_text
from fullpass.components.pages.notebook_html import ShownPage
from fullpass.components.pages.render import render_page
from fullpass.pipeline.printing import simple_table
from fullpass.pipeline.registry.compare import Comparison, interval

_WORDS = {"B is better": "better", "A is better": "worse"}
_NUMBERS = ("first", "value", "difference")


@dataclass(frozen=True)
class Comparisons(ShownPage):
    """Several models, each beside the first one.

    Attributes:
        pairs: The first model, and each of the others; their rows are the same for both of a pair.
    """

    pairs: tuple[Comparison, ...]

    @property
    def title(self) -> str:
        first = self.pairs[0].models[0]
        return f"{len(self.pairs)} models beside the first one, {first.name} ({first.what})"

    @property
    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The headings and rows of a table of text: the metrics of each model, and why some have none."""
        rows = [row for pair in self.pairs for row in _rows(pair)]
        return ("model", "rows", "metric", *_NUMBERS, ""), rows

    @property
    def changes(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The same of the settings of the YAMLs that differ from those of the first one."""
        changes = ((pair.models[1].name, one) for pair in self.pairs for one in pair.changes)
        return ("model", "path", "first", "value"), [(name, one.path, *one.texts) for name, one in changes]

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about the rows of each pair, in which A is the first model."""
        return tuple(f"{pair.models[1].name}: {note}" for pair in self.pairs for note in pair.notes)

    @property
    def page(self) -> str:
        return render_page("compare_several.html", compared=self)

    def record(self) -> dict[str, Any]:
        """Returns the comparisons as JSON data."""
        return {"pairs": [pair.record() for pair in self.pairs]}


def shown(compared: Comparisons) -> RenderableType:
    """Returns the comparisons as tables for people."""
    measured, changes = simple_table(*compared.table, right=_NUMBERS), simple_table(*compared.changes)
    return Group(Text(compared.title), measured, changes, *(Text(f"- {note}") for note in compared.notes))


def _rows(pair: Comparison) -> Iterator[tuple[str, ...]]:
    name = pair.models[1].name
    if pair.reason:
        yield name, f"not measured: {pair.reason}", *[""] * 5
    for m in pair.metrics:
        values = (metric_text(value) if value == value else "" for value in (m.a, m.b))
        rows = f"{pair.examples:,}: {pair.rows}"
        yield name, rows, m.metric, *values, interval(m), _WORDS.get(m.words, m.words)
