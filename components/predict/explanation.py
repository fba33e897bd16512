"""Explained predictions as pictures: how each column of a row moves the score from that of a row without any value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from markupsafe import Markup

from fullpass.base.metric_text import metric_text
from fullpass.components.pages.notebook_html import ShownPage
from fullpass.components.pages.render import render_page
from fullpass.components.pages.vega import COLORS, chart
from fullpass.components.predict.predicted_columns import BASE, EFFECT, PREDICTION, score_columns

MOST_ROWS = 20
"""Rows that have a picture."""
_MOST_EFFECTS = 10
"""Columns that have a bar of their own, those with the largest effects."""
_LONGEST = 40
"""Characters of a value that are shown."""
_TOLERANCE = 1e-4
"""By which the parts of a score may miss it, as a share of the score: they are rounded to float32."""
_ROUNDING = 1e-6
"""An effect up to this share of the score and the base is rounding."""
_STEP = 20
"""Height of a bar with its gap, in pixels."""
_NOTHING = "no value known"
_UP, _DOWN, _WHOLE = "up", "down", "score"


@dataclass(frozen=True)
class ExplainedRow:
    """A row with its score and what moves it.

    Attributes:
        prediction: The prediction as text.
        score_name: What the score is: the prediction, or the probability of a class.
        base: The score of a row without any value.
        effects: Column, its value as text, and its effect on the score, the largest first.
    """

    number: int
    prediction: str
    score_name: str
    score: float
    base: float
    effects: tuple[tuple[str, str, float], ...]

    @property
    def adds_up(self) -> bool:
        """Whether base and effects are the score, as they must be."""
        total = self.base + sum(effect for _, _, effect in self.effects)
        return abs(total - self.score) <= _TOLERANCE * max(1.0, abs(self.score), abs(self.base))

    @property
    def title(self) -> str:
        """The row in one line."""
        told = "" if self.score_name == PREDICTION else f", {self.score_name} {metric_text(self.score)}"
        return f"row {self.number:,}: {self.prediction}{told}"

    @property
    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The headings and rows of a table of all effects, the largest first."""
        return ("column", "value", "effect"), [(name, value, f"{effect:+.4g}") for name, value, effect in self.effects]

    @property
    def spec(self) -> dict[str, Any]:
        """The way from the base to the score, as a Vega-Lite specification."""
        return _waterfall(self)

    @property
    def chart(self) -> Markup:
        """The picture of that way."""
        return chart(self.spec, label=self.title)


@dataclass(frozen=True)
class Explanation(ShownPage):
    """Explained predictions.

    Attributes:
        rows: The rows with predictions, `base` and `effect_<column>`, as `Model.predict` returns them.
        explained: The first rows, with what moves their scores.
        count: Number of all rows.
    """

    rows: Any = field(repr=False)
    explained: tuple[ExplainedRow, ...]
    count: int

    def __getitem__(self, column: str) -> Any:
        """Returns a column of `rows`."""
        return self.rows[column]

    @property
    def title(self) -> str:
        which = f"{len(self.explained):,} of {self.count:,}" if len(self.explained) < self.count else f"{self.count:,}"
        return f"{which} predictions explained"

    @property
    def page(self) -> str:
        return render_page("explanation.html", explanation=self)

    def record(self) -> dict[str, Any]:
        return {"count": self.count, "explained": [asdict(row) for row in self.explained]}


def explained_rows(tables: Sequence[pa.Table], columns: Sequence[str], classes: Sequence[str]) -> list[ExplainedRow]:
    """Returns the first rows that have a prediction.

    Args:
        tables: Predictions with effects, as `Predictions` yields them.
        columns: The raw columns of the model.
        classes: Its classes; none for regression.
    """
    found: list[ExplainedRow] = []
    number = 0
    for table in tables:
        for row in table.slice(0, MOST_ROWS).to_pylist():
            number += 1
            if row[BASE] is not None and len(found) < MOST_ROWS:
                found.append(_row(number, row, columns, classes))
    return found


def _row(number: int, row: Mapping[str, Any], columns: Sequence[str], classes: Sequence[str]) -> ExplainedRow:
    score_name = PREDICTION
    if classes:
        named = dict(zip(classes, score_columns(classes, ()), strict=True))
        # Of two classes the second is explained, of several the likeliest.
        of = classes[1] if len(classes) == 2 else max(classes, key=lambda one: row[named[one]])  # noqa: PLR2004
        score, score_name = row[named[of]], f"probability of {of}"
    else:
        score = row[PREDICTION]
    effects = [(name, _value(row.get(name)), float(row[f"{EFFECT}{name}"])) for name in columns]
    effects.sort(key=lambda one: -abs(one[2]))
    told = metric_text(row[PREDICTION]) if isinstance(row[PREDICTION], float) else str(row[PREDICTION])
    return ExplainedRow(number, told, score_name, float(score), float(row[BASE]), tuple(effects))


def _value(value: Any) -> str:
    if value is None or value != value:
        return "missing"
    text = f"{value:.6g}" if isinstance(value, float) else str(value) or "empty"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _waterfall(row: ExplainedRow) -> dict[str, Any]:
    """Returns bars from the base to the score, one per column below each other, the largest first."""
    labels = {"labelLimit": 260, "labelOverlap": False}
    values = list(_steps(row))
    across = {"type": "quantitative", "title": None, "scale": {"zero": False, "padding": 20}}
    down = {"field": "what", "type": "nominal", "sort": [one["what"] for one in values], "title": None, "axis": labels}
    tips = [
        {"field": "what", "type": "nominal", "title": "column"},
        {"field": "effect", "type": "quantitative", "format": "+.4~g"},
        {"field": "to", "type": "quantitative", "format": ".4~g", "title": "score so far"},
    ]
    color = {"field": "way", "type": "nominal", "scale": {"domain": [_UP, _DOWN], "range": list(COLORS[:2])}}
    return {
        "data": {"values": values},
        "width": "container",
        "height": _STEP * len(values),
        "encoding": {"y": down, "tooltip": tips},
        "layer": [
            {
                "transform": [{"filter": f"datum.way != '{_WHOLE}'"}],
                "mark": {"type": "bar"},
                "encoding": {
                    "x": {"field": "from", **across},
                    "x2": {"field": "to"},
                    "color": {**color, "legend": None},
                },
            },
            {
                "transform": [{"filter": f"datum.way == '{_WHOLE}'"}],
                "mark": {"type": "tick", "thickness": 3, "color": "currentColor"},
                "encoding": {"x": {"field": "to", **across}},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 6},
                "encoding": {
                    "x": {"field": "right", **across},
                    "text": {"field": "told", "type": "nominal"},
                },
            },
        ],
    }


def _steps(row: ExplainedRow) -> Iterator[dict[str, Any]]:
    yield _end(_NOTHING, row.base)
    at = row.base
    rounding = _ROUNDING * max(abs(row.score), abs(row.base))
    largest = [one for one in row.effects[:_MOST_EFFECTS] if abs(one[2]) > rounding]
    shown = [(f"{name} = {value}", effect) for name, value, effect in largest]
    if others := row.effects[len(largest) :]:
        shown.append((f"{len(others)} other{'s' * (len(others) > 1)}", sum(effect for _, _, effect in others)))
    for what, effect in shown:
        way, to = _UP if effect >= 0 else _DOWN, at + effect
        yield {
            **{"what": what, "from": at, "to": to, "effect": effect, "way": way, "right": max(at, to)},
            "told": f"{effect:+.3g}" if abs(effect) > rounding else "0",
        }
        at = to
    yield _end(row.score_name, row.score)


def _end(what: str, score: float) -> dict[str, Any]:
    told = metric_text(score)
    return {"what": what, "from": score, "to": score, "effect": None, "way": _WHOLE, "right": score, "told": told}
