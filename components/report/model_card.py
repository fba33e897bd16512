"""The model card: the purpose, the origin, the quality and the limits of a model.

It contains facts about the run, and what `card` of the YAML says.

Source: Mitchell et al., Model Cards for Model Reporting (2019).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fullpass.base.direction_marks import with_marks_shown
from fullpass.base.metric_text import metric_text
from fullpass.components.evaluation.judge.verdict import Measured, Verdict
from fullpass.components.evaluation.measure.metrics import metric_of
from fullpass.components.pages.render import render_page
from fullpass.components.report.config import CardFacts
from fullpass.components.report.report_data import ReportData

_WORST_SLICES, _FEATURES = 5, 10
"""Rows of the tables of a card, which should fit one page; the report has all."""
_OFTEN_MISSING = 0.2
"""Share of train from which on a column that lacks values is a limit of the model."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")

Table = tuple[tuple[str, ...], ...]
"""Rows of cells; the first row contains the headings."""


@dataclass(frozen=True)
class Section:
    """A part of the card. lines: one fact per line. table: empty if there is none."""

    heading: str
    lines: tuple[str, ...]
    table: Table = ()


def model_card(run: ReportData, record: Mapping[str, Any], facts: CardFacts) -> tuple[Section, ...]:
    """Returns the card."""
    return (
        Section("Purpose", tuple(_purpose(run, record, facts))),
        Section("Origin", tuple(_origin(run))),
        Section("Quality", tuple(_quality(run)), _metrics(run.verdict)),
        Section("Worst slices", (), _worst_slices(run.verdict)),
        Section("Most important features", (), _features(run)),
        Section("Limits", tuple(_limits(run, facts))),
    )


def to_markdown(name: str, card: tuple[Section, ...]) -> str:
    """Returns the card as Markdown, in which all text from the data is escaped."""
    parts = [f"# {_escaped(name)}: model card"]
    for section in card:
        if section.lines or len(section.table) > 1:
            parts.append(f"## {section.heading}")
            parts += ["\n".join(f"- {_escaped(line)}" for line in section.lines)] if section.lines else []
            parts += [_table(section.table)] if len(section.table) > 1 else []
    return "\n\n".join(parts) + "\n"


def to_html(name: str, card: tuple[Section, ...]) -> str:
    """Returns the card as one page without external resources."""
    return render_page("model_card.html", name=name, card=card)


def _purpose(run: ReportData, record: Mapping[str, Any], facts: CardFacts) -> Iterator[str]:
    if model := record.get("model"):
        formula = f", which is {facts.formula}" if facts.formula else ""
        yield f"It predicts {model['label']} ({model['task']}){formula}."
    said = {"Intended use": facts.intended_use, "Not for": facts.not_for, "Owner": facts.owner}
    yield from (f"{what}: {text.rstrip('.')}." for what, text in said.items() if text)
    if record.get("classes"):
        total = sum(record["classes"].values()) or 1
        shares = ", ".join(f"{name} ({rows / total:.1%} of train)" for name, rows in record["classes"].items())
        yield f"Its classes are {shares}."
    yield f"It is {'blessed' if run.verdict.blessed else 'not blessed'}."
    yield from (f"Not blessed: {reason}." for reason in run.verdict.reasons)


def _origin(run: ReportData) -> Iterator[str]:
    yield from (f"{name.capitalize()}: {value}." for name, value in run.identity.facts)
    yield from (f"Data, {name}: {value}." for name, value in run.data)
    yield from (f"Training, {name}: {value}." for name, value in run.training)


def _quality(run: ReportData) -> Iterator[str]:
    rows = f"{run.verdict.examples:,} rows of the eval split"
    yield f"Measured on {rows}, which it was not trained on; ± is an interval of 95 %."
    if run.reference:
        yield f"Simple reference: {run.reference}."
    yield from (f"Baseline: {line}." for line in run.verdict.baselines)
    if not run.parity["compared"]:
        yield "Training and serving were not compared: the model is of a run_fn of TFX."
        return
    yield f"Training and serving agree on {run.parity['rows']:,} rows, with {run.parity['mismatches']} mismatches."


def _metrics(verdict: Verdict) -> Table:
    rows = [(m.metric, _value(m), m.required, _held(m)) for m in verdict.all_metrics]
    return (("metric", "value", "required", ""), *rows)


def _worst_slices(verdict: Verdict) -> Table:
    if not verdict.metrics or not verdict.slices:
        return ()
    first = verdict.metrics[0]
    upwards = metric_of(first.metric).higher_is_better is not False
    known = [one for one in verdict.slices if first.metric in one.values]
    known.sort(key=lambda one: one.values[first.metric], reverse=not upwards)
    rows = [
        (
            f"{one.name}, newest span" if one.newest else one.name,
            f"{one.examples:,}",
            metric_text(one.values[first.metric]),
        )
        for one in known[:_WORST_SLICES]
    ]
    return (("slice", "examples", first.metric), *rows)


def _features(run: ReportData) -> Table:
    rows = [(f["feature"], f"{f['importance']:.4f} ± {f['reach']:.4f}") for f in run.importance[:_FEATURES]]
    return (("feature", f"growth of the {run.importance_unit} without it"), *rows)


def _limits(run: ReportData, facts: CardFacts) -> Iterator[str]:
    read = [column for column in run.columns if column.name in facts.columns]
    often = [column for column in read if column.missing >= _OFTEN_MISSING]
    yield from (f"{column.name} was missing in {column.missing:.0%} of train." for column in often)
    numbers = [column for column in read if column.kind == "number" and column.chart]
    yield from (f"{column.name}: train contains {column.text}; other values were not tested." for column in numbers)
    useless = [f["feature"] for f in run.importance if not f["importance"] > f["reach"]]
    if useless:
        yield f"The measured importance is no more than chance for {', '.join(useless)}."
    yield from (f"{note.rstrip('.')}." for note in (*run.verdict.notes, *run.data_notes))


def _value(measured: Measured) -> str:
    return metric_text(measured.value, measured.half_width)


def _held(measured: Measured) -> str:
    return "" if not measured.required else "met" if measured.passed else "not met"


def _table(table: Table) -> str:
    lines = [f"| {' | '.join(map(_escaped, row))} |" for row in table]
    return "\n".join([lines[0], "|" + "---|" * len(table[0]), *lines[1:]])


def _escaped(text: str) -> str:
    return with_marks_shown(_SPECIAL.sub(r"\\\1", " ".join(text.split())))
