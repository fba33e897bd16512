"""Measures a model on labelled rows that it was not given in a run."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.text import Text

from fullpass.base.errors import UserError, listed
from fullpass.base.metric_text import difference_text, metric_text
from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.judge_metrics import judge_metrics
from fullpass.components.evaluation.judge.verdict import Measured, Slice, Verdict
from fullpass.components.evaluation.measure.measure_rows import chosen, in_batches, measure_rows, sampled
from fullpass.components.evaluation.shown.shown_files import regression_errors
from fullpass.components.pages.notebook_html import ShownPage
from fullpass.components.pages.render import render_page
from fullpass.components.report.classes import ShownClasses, classes_section, curve_charts
from fullpass.components.report.regression import ShownErrors, errors_section
from fullpass.pipeline.printing import simple_table
from fullpass.pipeline.registry.compared_model import ComparedModel, find_model

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_SLICES = 10
"""Slices in a terminal; `--json` has all."""


@dataclass(frozen=True)
class Evaluation(ShownPage):
    """The metrics of a model on labelled rows. A notebook shows them as a page of its own.

    Attributes:
        rows: Number of rows read: bad ones, ones without a usable label or of weight 0, and measured ones.
        unlabelled: Number of rows without a usable label, or of weight 0.
        verdict: The metrics and slices; no threshold is applied. The `baseline` of a metric is its value when the model
            was trained, on its eval split.
        notes: Bad rows with their reasons, rows without a label, and absent columns.
    """

    model: ComparedModel
    data: str
    rows: int
    bad: int
    unlabelled: int
    verdict: Verdict
    notes: tuple[str, ...]
    curves: tuple[Markup, ...] = field(default=(), repr=False)
    classes: ShownClasses | None = field(default=None, repr=False)
    errors: ShownErrors | None = field(default=None, repr=False)

    @property
    def metrics(self) -> dict[str, float]:
        """Metric -> value."""
        return {measured.metric: measured.value for measured in self.verdict.metrics}

    @property
    def table(self) -> "pd.DataFrame":
        """One row per metric: `value`, its 95 % interval `low` and `high`, `at_training`, `difference`, `change`."""
        import pandas as pd

        return pd.DataFrame.from_dict(self.record()["metrics"], orient="index").rename_axis("metric")

    @property
    def slices(self) -> Sequence[Slice]:
        """The slices, the largest first."""
        return self.verdict.slices

    @property
    def page(self) -> str:
        return render_page("evaluation.html", run=self, beside="at training")

    def record(self) -> dict[str, Any]:
        """Returns the evaluation as JSON data."""
        return {
            "model": str(self.model.export),
            "data": self.data,
            "rows": self.rows,
            "bad": self.bad,
            "unlabelled": self.unlabelled,
            "examples": self.verdict.examples,
            "metrics": {
                m.metric: dict(zip(("value", "low", "high"), _interval(m), strict=True))
                | {"at_training": m.baseline, "difference": m.difference, "change": m.change}
                for m in self.verdict.metrics
            },
            "slices": [{"slice": s.name, "examples": s.examples, "metrics": dict(s.values)} for s in self.slices],
            "notes": self.notes,
        }

    @property
    def title(self) -> str:
        return f"{self.model.name} on {self.data}"


def evaluate_model(model: str, data: str, file: Path, read_as: Mapping[str, Any] | None = None) -> Evaluation:
    """Measures a model; see `compared_model.find_model` for its name, and `score_models.labelled_rows` for the data.

    Raises:
        UserError: There is no such model or data, the YAML of the model was not recorded, or no row can be measured.
    """
    found = find_model(model, file)
    if found.export is None:
        raise UserError(f"{model}: {found.note}.")
    if found.config is None:
        raise UserError(
            f"{model}: the YAML that the model was trained by was not recorded, or is not of this release, so the "
            "columns of label and slices are unknown. Name a run, or a model that `fullpass run` trained."
        )
    # TensorFlow is loaded here, so a wrong name is told before.
    from fullpass.pipeline.registry.score_models import labelled_rows, score

    config = found.config.evaluation
    config = EvaluationConfig(metrics=config.measured, slices=config.slices)
    rows = labelled_rows(found.config, data, read_as or {})
    sliced = {column: found.columns[column] for entry in config.slices for column in entry}
    scored = score(found, rows, sliced)
    used = scored.models[0].weights > 0
    if not used.any():
        raise UserError(f"{data}: no row has a label that the model can use. {_unlabelled(rows, scored, used)}")
    measured = measure_rows(config.metrics, config.slices, in_batches(chosen(scored, used)))
    verdict = judge_metrics(measured.measured, config)
    verdict = replace(verdict, metrics=tuple(_beside_training(m, found.lineage) for m in verdict.metrics))
    is_regression = found.config.label.task == "regression"
    return Evaluation(
        model=found,
        data=data,
        rows=rows.rows,
        bad=rows.bad,
        unlabelled=int((~used).sum()) + rows.left_out.total(),
        verdict=verdict,
        notes=(*filter(None, (found.note,)), *_notes(data, rows, scored, used)),
        curves=curve_charts(measured.curves, ("the model",), classes=measured.classes),
        classes=classes_section(measured.classes, verdict.examples, ("the model",)),
        errors=errors_section(regression_errors(sampled(scored).models[0])) if is_regression else None,
    )


def _beside_training(measured: Measured, lineage: Mapping[str, Any]) -> Measured:
    """Returns a metric beside its value at training, on other rows: two independent samples."""
    trained, error = ((lineage.get(facts) or {}).get(measured.metric) for facts in ("metrics", "standard_errors"))
    if trained is None:
        return measured
    unknown = "" if error is not None else "the release that trained the model recorded no interval"
    of_both = math.hypot(measured.error, error or 0.0)
    return replace(measured, baseline=trained, difference_error=of_both, not_compared=unknown)


def _notes(data: str, rows: Any, scored: Any, used: Any) -> Iterator[str]:
    if rows.bad:
        yield f"{rows.bad:,} of {rows.rows:,} rows cannot be read: {'; '.join(rows.reasons)}"
    yield from (f"left out: {left}" for left in rows.unlabelled)
    yield from rows.short_histories
    if not used.all():
        yield _unlabelled(rows, scored, used)
    if rows.absent:
        yield f"columns that {data} lacks, taken as missing: {', '.join(rows.absent)}"


def _unlabelled(rows: Any, scored: Any, used: Any) -> str:
    known = scored.models[0].classes
    others = rows.labels_unknown_to(known) if known else []
    classes = f" (its classes: {listed(known)}; in these rows: {listed(others)})" if others else ""
    return (
        f"{int((~used).sum()):,} of {rows.rows:,} rows have no label that the model knows{classes}, or a weight of 0, "
        f"and count nowhere: {rows.located(scored.row_ids[~used])}"
    )


def _interval(measured: Measured) -> tuple[float, float, float]:
    reach = float("nan") if measured.half_width is None else measured.half_width
    return measured.value, measured.value - reach, measured.value + reach


def shown(found: Evaluation) -> RenderableType:
    """Returns an evaluation as tables for people."""
    heading = Text(
        f"{found.model.what} on {found.data}: {found.verdict.examples:,} of {found.rows:,} rows measured, "
        f"{found.bad:,} bad, {found.unlabelled:,} without a usable label or of weight 0."
    )
    notes = [Text(f"- {note}") for note in (*found.notes, *found.verdict.notes)]
    figures = ("value", "95 %", "at training", "difference")
    table = simple_table(("metric", *figures, ""), map(_metric_row, found.verdict.metrics), right=figures)
    parts: list[RenderableType] = [heading, *notes, table]
    if found.slices:
        slices = [
            (one.name, f"{one.examples:,}", *(_metric_text(one.values.get(name)) for name in found.metrics))
            for one in found.slices[:_SHOWN_SLICES]
        ]
        table = simple_table(("slice", "rows", *found.metrics), slices, right=("rows", *found.metrics))
        parts += [Text(f"The largest of {len(found.slices)} slices:"), table]
    return Group(*parts)


def _metric_row(m: Measured) -> tuple[str, ...]:
    value, low, high = _interval(m)
    reach = "" if m.half_width is None else f"{metric_text(low)} to {metric_text(high)}"
    difference = difference_text(m.difference, m.difference_half_width) if m.change else ""
    known = metric_text(value) if value == value else "undefined"
    return m.metric, known, reach, _metric_text(m.baseline), difference, m.change


def _metric_text(value: float | None) -> str:
    return "" if value is None else metric_text(value)
