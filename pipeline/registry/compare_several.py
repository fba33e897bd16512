"""Compares any number of models with the first one, on the rows that all have."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from fullpass.base.metric_text import metric_text
from fullpass.components.pages.notebook_html import ShownPage
from fullpass.components.pages.render import render_page
from fullpass.pipeline.printing import simple_table
from fullpass.pipeline.registry.compare import Comparison, interval, measured_pair, scored_pair

_WORDS = {"B is better": "better", "A is better": "worse"}
_NUMBERS = ("first", "value", "difference")


@dataclass(frozen=True)
class Comparisons(ShownPage):
    """Several models, each beside the first one.

    Attributes:
        pairs: The first model, and each of the others.
        rows: Which rows they are measured on, as a sentence.
    """

    pairs: tuple[Comparison, ...]
    rows: str = ""

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
        return {"rows": self.rows, "pairs": [pair.record() for pair in self.pairs]}


def compare_several(
    first: str, others: Sequence[str], file: Path, data: str | None = None, read_as: Mapping[str, Any] | None = None
) -> Comparisons:
    """Compares models with the first one on the rows that all have; see `compare.scored_pair`.

    If they have none in common, each pair is measured on its own.
    """
    scored = [scored_pair(first, other, file, data, read_as) for other in others]
    of_pairs = [both for _, both in scored if both is not None]
    if not of_pairs:
        return Comparisons(tuple(compared for compared, _ in scored))
    from fullpass.pipeline.registry.score_models import rows_of_all

    common = rows_of_all(of_pairs)
    words = "The models have no rows in common, so each is measured beside the first one on the rows of both."
    if common is not None:
        words = f"{len(common[0].rows.row_ids):,} rows, the same for all models."
    rows = iter(common or of_pairs)
    return Comparisons(tuple(c if both is None else measured_pair(c, next(rows)) for c, both in scored), words)


def shown(compared: Comparisons) -> RenderableType:
    """Returns the comparisons as tables for people."""
    measured, changes = simple_table(*compared.table, right=_NUMBERS), simple_table(*compared.changes)
    return Group(
        Text(compared.title), Text(compared.rows), measured, changes, *(Text(f"- {note}") for note in compared.notes)
    )


def _rows(pair: Comparison) -> Iterator[tuple[str, ...]]:
    name = pair.models[1].name
    if pair.reason:
        yield name, f"not measured: {pair.reason}", *[""] * 5
    for m in pair.metrics:
        values = (metric_text(value) if value == value else "" for value in (m.a, m.b))
        rows = f"{pair.examples:,}: {pair.rows}"
        yield name, rows, m.metric, *values, interval(m), _WORDS.get(m.words, m.words)
