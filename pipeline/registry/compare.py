"""Compares two models: what their YAMLs and data changed, and their metrics on the same rows with paired intervals."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.text import Text

from fullpass.base.errors import UsageError
from fullpass.base.metric_text import difference_text, metric_text
from fullpass.components.evaluation.confidence import half_width
from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.verdict import change_word
from fullpass.components.evaluation.measure.measure_rows import in_batches, measure_rows, sampled
from fullpass.components.evaluation.measure.measured_metrics import ALWAYS_MEASURED, MeasuredRows
from fullpass.components.evaluation.shown.shown_files import regression_errors
from fullpass.components.pages.notebook_html import ShownPage
from fullpass.components.pages.render import render_page
from fullpass.components.report.classes import ShownClasses, classes_section, curve_charts
from fullpass.components.report.regression import ShownErrors, errors_section
from fullpass.pipeline.printing import simple_table
from fullpass.pipeline.record.config_diff import Change, Settings, differences
from fullpass.pipeline.registry.compared_model import ComparedModel, find_model

if TYPE_CHECKING:
    import pandas as pd

    from fullpass.pipeline.registry.score_models import RowsOfBoth

SIDES = ("A", "B")
_SHOWN_SLICES = 10
"""Slices in a terminal; the page and `--json` have all."""
_NAN = float("nan")


@dataclass(frozen=True)
class ComparedMetric:
    """A metric of both models on the same rows.

    Attributes:
        a, b: The values; NaN where undefined.
        half_width: Half the width of the 95 % interval around the difference b - a; NaN if it is unknown.
        alike: Whether both values measure the same thing; metrics of quantiles with other levels do not.
    """

    metric: str
    a: float
    b: float
    half_width: float
    alike: bool = True

    @property
    def difference(self) -> float:
        """The value of B minus that of A."""
        return self.b - self.a

    @property
    def certain(self) -> bool:
        """Whether the 95 % interval of the difference excludes 0."""
        return self.alike and abs(self.difference) > self.half_width  # False if either is NaN

    @property
    def words(self) -> str:
        """`B is better`, `A is better`, `of other levels`, or what `change_word` says of B minus A."""
        if not self.alike and not math.isnan(self.difference):
            return "of other levels"
        said = change_word(self.metric, self.difference, self.half_width)
        return {"better": f"{SIDES[1]} is better", "worse": f"{SIDES[0]} is better"}.get(said, said)


@dataclass(frozen=True)
class ComparedSlice:
    """The metrics of a slice of the rows."""

    name: str
    examples: int
    metrics: tuple[ComparedMetric, ...]

    @property
    def moved(self) -> bool:
        """Whether a metric differs by more than chance."""
        return any(metric.certain for metric in self.metrics)


@dataclass(frozen=True)
class Comparison(ShownPage):
    """Two models side by side. A notebook shows it as a page of its own.

    Attributes:
        models: A and B.
        facts: Name, value of A, value of B.
        changes: The differences of the YAMLs.
        rows: Where the rows come from on which both were measured; empty if they could not be.
        reason: Why they could not be measured on the same rows; empty if they were.
        slices: Those that moved first, by the size of the difference in standard errors.
    """

    models: tuple[ComparedModel, ComparedModel]
    facts: tuple[tuple[str, str, str], ...]
    changes: tuple[Change, ...]
    rows: str = ""
    examples: int = 0
    metrics: tuple[ComparedMetric, ...] = ()
    slices: tuple[ComparedSlice, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    curves: tuple[Markup, ...] = field(default=(), repr=False)
    classes: ShownClasses | None = field(default=None, repr=False)
    errors: tuple[ShownErrors | None, ...] = field(default=(), repr=False)

    @property
    def added(self) -> tuple[str, ...]:
        """Features that only B has."""
        return tuple(sorted(_features(self.models[1]) - _features(self.models[0])))

    @property
    def removed(self) -> tuple[str, ...]:
        """Features that only A has."""
        return tuple(sorted(_features(self.models[0]) - _features(self.models[1])))

    @property
    def verdict(self) -> str:
        """Which of both is better in which metrics, beyond chance, by a positive number."""
        better: dict[str, list[str]] = {}
        others: dict[str, list[str]] = {}
        for m in self.metrics:
            if m.words.endswith("is better"):
                by = metric_text(abs(m.difference), m.half_width)
                better.setdefault(f"{m.words} in", []).append(f"{m.metric} by {by}")
            else:
                others.setdefault(f"{m.words}:", []).append(m.metric)
        parts = [f"{words} {', '.join(names)}" for of in (better, others) for words, names in of.items()]
        return "; ".join(parts if better else ["Neither is better beyond chance", *parts])

    @property
    def style(self) -> str:
        """How the page shows the verdict: `good` if B alone is better, `bad` if A alone is, else `quiet`."""
        better = {m.words for m in self.metrics if m.words.endswith("is better")}
        return {"B is better": "good", "A is better": "bad"}.get("".join(better), "quiet")

    @property
    def moved_words(self) -> str:
        """How many slices have a metric that differs beyond chance, and how many metrics do so by chance."""
        metrics = [m for s in self.slices for m in s.metrics]
        if all(m.words in ("equal", "undefined") for m in metrics):
            return "A and B are equal on these rows, in every metric of every slice"
        tested = [m for m in metrics if m.half_width > 0 or m.certain]
        if not tested:
            return "No slice has enough rows to tell a difference from chance"
        found, moved = sum(m.certain for m in tested), sum(s.moved for s in self.slices)
        return (
            f"{moved} of {len(self.slices)} slices moved beyond chance: {found} of {len(tested)} metrics of slices "
            f"differ, each at 95 %; about {len(tested) / 20:.0f} would by chance alone"
        )

    @property
    def table(self) -> "pd.DataFrame":
        """One row per metric: `a`, `b`, `difference`, its 95 % interval `low` and `high`, and `verdict`."""
        import pandas as pd

        rows = [(m.metric, *_numbers(m), m.words) for m in self.metrics]
        return pd.DataFrame(rows, columns=["metric", *_COLUMNS, "verdict"]).set_index("metric")

    @property
    def slice_table(self) -> "pd.DataFrame":
        """One row per slice and metric, with the columns of `table`."""
        import pandas as pd

        rows = [(s.name, s.examples, m.metric, *_numbers(m), m.words) for s in self.slices for m in s.metrics]
        return pd.DataFrame(rows, columns=["slice", "examples", "metric", *_COLUMNS, "verdict"])

    @property
    def page(self) -> str:
        return render_page("compare.html", compared=self)

    def record(self) -> dict[str, Any]:
        """Returns the comparison as JSON data."""
        return {
            **{
                side.lower(): {"name": one.name, "what": one.what, "export": one.export and str(one.export)}
                for side, one in zip(SIDES, self.models, strict=True)
            },
            "changes": [vars(change) for change in self.changes],
            "features": {"added": self.added, "removed": self.removed},
            "rows": self.rows or None,
            "examples": self.examples,
            "reason": self.reason or None,
            "notes": self.notes,
            "metrics": [_record(metric) for metric in self.metrics],
            "slices": [
                {"slice": s.name, "examples": s.examples, "metrics": [_record(metric) for metric in s.metrics]}
                for s in self.slices
            ],
        }

    @property
    def title(self) -> str:
        a, b = self.models
        return f"A: {a.name} ({a.what}); B: {b.name} ({b.what})"


_COLUMNS = ("a", "b", "difference", "low", "high")


def scored_pair(
    a: str, b: str, file: Path, data: str | None, read_as: Mapping[str, Any] | None
) -> "tuple[Comparison, RowsOfBoth | None]":
    """Returns the comparison of two models without metrics, and the rows that both have scored, if there are any.

    Args:
        a, b: Names of models, as `compared_model.find_model` takes them.
        data: Labelled rows; None for those that `score_models.rows_of_both` finds.

    Raises:
        UserError: There is no such model or data, or options tell how to read data that is not given.
    """
    if read_as and data is None:
        raise UsageError(f"{', '.join(read_as)}: how to read the rows of --data; give it, or drop them.")
    models = (find_model(a, file), find_model(b, file))
    changes = differences(*(Settings.read(one.yaml or "{}") for one in models)) if all(m.yaml for m in models) else ()
    compared = Comparison(models, tuple(_facts(*models)), changes)
    notes = tuple(f"{side}: {one.note}" for side, one in zip(SIDES, models, strict=True) if one.note and one.export)
    if lacking := [
        f"{side} ({one.name}): {one.note}" for side, one in zip(SIDES, models, strict=True) if not one.export
    ]:
        return replace(compared, reason="; ".join(lacking), notes=notes), None
    # TensorFlow is loaded here, so what cannot be measured is told before.
    from fullpass.pipeline.registry.score_models import NotComparable, rows_of_both

    slices = _of_both(models, lambda config: config.slices)
    try:
        both = rows_of_both(*models, data, read_as or {}, dict.fromkeys(c for entry in slices for c in entry))
    except NotComparable as error:
        return replace(compared, reason=str(error), notes=notes), None
    return replace(compared, rows=both.source, notes=(*notes, *both.notes)), both


def _of_both(models: Sequence[ComparedModel], entries: Callable[[EvaluationConfig], Sequence[Any]]) -> list[Any]:
    """Returns the entries of the models' evaluation, each once."""
    return list(dict.fromkeys(entry for one in models if one.config for entry in entries(one.config.evaluation)))


def measured_pair(compared: Comparison, both: "RowsOfBoth") -> Comparison:
    """Returns the comparison with the metrics of rows that both models have scored."""
    models = compared.models
    slices = _of_both(models, lambda config: config.slices)
    metrics = _of_both(models, lambda config: config.measured)
    known = [entry for entry in slices if all(column in both.rows.columns for column in entry)]
    found = measure_rows(metrics, known, in_batches(both.rows))
    of_slices = [
        ComparedSlice(", ".join(f"{k} {v}" for k, v in rows.keys), rows.examples, compared_metrics(rows, metrics))
        for rows in found.measured
        if rows.keys
    ]
    return replace(
        compared,
        examples=found.whole.examples,
        metrics=compared_metrics(found.whole, metrics),
        slices=tuple(sorted(of_slices, key=_moved_first)),
        notes=(*compared.notes, *(f"too many slices of {', '.join(one)}" for one in found.whole.unsliced)),
        curves=curve_charts(found.curves, SIDES, classes=found.classes),
        classes=classes_section(found.classes, found.whole.examples, SIDES),
        errors=tuple(errors_section(regression_errors(one)) for one in sampled(both.rows).models)
        if models[0].config and models[0].config.label.task == "regression"
        else (),
    )


def compared_metrics(rows: MeasuredRows, names: Sequence[str]) -> tuple[ComparedMetric, ...]:
    """Returns some metrics of rows that two models were measured on."""
    return tuple(
        ComparedMetric(
            name,
            float(rows.values[name]),
            float(rows.baseline.get(name, _NAN)),
            half_width(float(rows.difference_errors.get(name, _NAN))),
            alike=name not in rows.not_compared,
        )
        for name in names
        if name in rows.values and name != ALWAYS_MEASURED
    )


def _moved_first(one: ComparedSlice) -> tuple[bool, float, int]:
    sizes = [abs(m.difference) / m.half_width for m in one.metrics if m.half_width > 0]
    return not one.moved, -max(sizes, default=0.0), -one.examples


def _facts(a: ComparedModel, b: ComparedModel) -> Iterator[tuple[str, str, str]]:
    """Yields the facts of both models by name; those that neither has are left out."""
    for name, of in _FACTS.items():
        values = (of(a), of(b))
        if any(values):
            yield name, *values


def _data(model: ComparedModel) -> str:
    named = [span["span"] for span in model.lineage.get("spans") or () if span["span"]]
    rows = ", ".join(f"{split} {count:,}" for split, count in model.rows.items())
    return rows + (f"; {named[0]} to {named[-1]}, {len(named)} spans" if len(named) > 1 else "")


def _code(model: ComparedModel) -> str:
    code = model.lineage.get("code") or {}
    return ", ".join(filter(None, (code.get("fullpass"), code.get("commit"), code.get("line"))))


_FACTS = {
    "given as": lambda model: model.name,
    "found": lambda model: model.what,
    "model": lambda model: str(model.export or ""),
    "trained by run": lambda model: str(model.lineage.get("run") or ""),
    "data": _data,
    "code": _code,
    "features, crosses": lambda model: str(len(_features(model)) or ""),
}


def _features(model: ComparedModel) -> set[str]:
    if model.config is None:
        return set()
    crosses = (f"cross {cross.name or ' x '.join(cross.inputs)}" for cross in model.config.crosses)
    return {*model.config.all_features, *crosses}


def _numbers(metric: ComparedMetric) -> tuple[float, ...]:
    low, high = metric.difference - metric.half_width, metric.difference + metric.half_width
    return metric.a, metric.b, metric.difference, low, high


def _record(metric: ComparedMetric) -> dict[str, Any]:
    return {"metric": metric.metric, **dict(zip(_COLUMNS, _numbers(metric), strict=True)), "verdict": metric.words}


def shown(compared: Comparison) -> RenderableType:
    """Returns a comparison as tables for people."""
    parts: list[RenderableType] = [simple_table(("", *SIDES), compared.facts), *_changes(compared)]
    if compared.reason:
        return Group(
            *parts, Text(f"\nNot measured on the same rows: {compared.reason}.", style="red"), *_notes(compared)
        )
    parts.append(Text(f"\n{compared.examples:,} rows, the same for both: {compared.rows}."))
    parts += [*_notes(compared), _table(["metric"], [([m.metric], m) for m in compared.metrics])]
    moved = [one for one in compared.slices if one.moved]
    if compared.slices:
        parts.append(Text(f"{compared.moved_words}."))
    if moved:
        named = [(f"{one.name} ({one.examples:,})", one) for one in moved[:_SHOWN_SLICES]]
        rows = [((name, m.metric), m) for name, one in named for m in one.metrics if m.certain]
        parts.append(_table(["slice (rows)", "metric"], rows))
    return Group(*parts)


def _changes(compared: Comparison) -> list[RenderableType]:
    if not all(one.yaml for one in compared.models):
        return [Text("The YAML of one is unknown, so the YAMLs are not compared.")]
    if not compared.changes:
        return [Text("The YAMLs mean the same.")]
    rows = [(change.path, *change.texts) for change in compared.changes]
    return [simple_table(("path", *SIDES), rows, title="What the YAMLs changed")]


def _notes(compared: Comparison) -> list[Text]:
    return [Text(f"- {note}") for note in compared.notes]


def _table(heads: Sequence[str], rows: Sequence[tuple[Sequence[str], ComparedMetric]]) -> RenderableType:
    numbers = (*SIDES, "B - A")
    cells = [(*names, _figure(m.a), _figure(m.b), interval(m), m.words) for names, m in rows]
    return simple_table((*heads, *numbers, ""), cells, right=numbers)


def _figure(value: float) -> str:
    """Returns the text of a value; empty if it is undefined."""
    return "" if math.isnan(value) else metric_text(value)


def interval(metric: ComparedMetric) -> str:
    """Returns the difference with its interval as `+0.0123 ± 0.0045`."""
    return "" if math.isnan(metric.difference) else difference_text(metric.difference, metric.half_width)
