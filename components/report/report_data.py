"""The facts of the report, read from the artifacts of a run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from tensorflow_metadata.proto.v0 import statistics_pb2
from tfx.dsl.io import fileio

from fullpass.base.files import read_json
from fullpass.components.artifact_files import STATISTICS_FILE
from fullpass.components.data_gate.page import Gate, gate_section
from fullpass.components.evaluation.judge.verdict import Verdict
from fullpass.components.evaluation.measure.class_results import read_class_results
from fullpass.components.evaluation.measure.score_curves import read_curves
from fullpass.components.evaluation.shown.shown_files import (
    ShownText,
    read_dependence,
    read_regression_errors,
    read_texts,
)
from fullpass.components.ingest.writing.manifest import (
    QUARANTINE,
    Manifest,
    history_words,
    left_out_words,
    read_manifest,
    sums,
    unmatched_words,
)
from fullpass.components.mlmd_values import RecordedArtifact
from fullpass.components.pages.charts import bar_chart, short_label
from fullpass.components.report.classes import ShownClasses, classes_section, curve_charts
from fullpass.components.report.columns import ReportedColumn, read_columns
from fullpass.components.report.dependence import ShownDependence, dependence_section
from fullpass.components.report.identity import ReportIdentity, identity
from fullpass.components.report.regression import ShownErrors, errors_section
from fullpass.components.report.training import Facts, Table, leaderboard_table, training_charts, training_facts
from fullpass.components.run_artifacts import RunArtifacts
from fullpass.components.statistics.split_labels import read_split_labels
from fullpass.preprocessing.features.label import Label
from fullpass.trainer.insight.words import reference_words

_SHOWN_FEATURES = 20
"""Number of features with a bar; the table below has all."""
_LONGEST_NAME = 40
"""Characters of the name of a class below an image, so that the images of a row stay of one height."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_IMPORTANT = "The most important features, with intervals of 95 %"
_OF_VARIANCE = "squared error, in shares of the label's variance"


@dataclass(frozen=True)
class ReportData:
    """The facts of the whole page, which its templates read.

    Attributes:
        reference: How the simple reference compares, as a sentence; "" if there is none.
        importance: Feature, importance and reach (half its 95 % interval), as `training.json` has them.
        importance_unit: Unit of the importance, as text.
        curves: Empty if the metrics need no histograms of all classes.
        tried: The models that were tried, with their scores and times; no rows if it was one.
        parity: Numbers of compared `rows`, of comparisons (`compared`), and of `mismatches`.
        data_notes: Facts of the data that need attention.
        schema: The text of SchemaComparison.
        served_instead: The version that was served after the push of another; "" if the pushed one was.
        classes: None for a regression, and if no metric needs them.
        errors: None if the task is no regression.
        images: Images in base64 with label, prediction, probability, and whether it is right.
        dependence: None if no importance was measured.
    """

    name: str
    verdict: Verdict
    reference: str
    importance: Sequence[Mapping[str, Any]]
    importance_unit: str
    importance_chart: Markup
    curves: tuple[Markup, ...]
    training: Facts
    training_charts: tuple[Markup, ...]
    parity: Mapping[str, int]
    serving: str
    gate: Gate
    data: Facts
    data_notes: tuple[str, ...]
    columns: tuple[ReportedColumn, ...]
    schema: str
    pushed_to: str
    served_instead: str = ""
    classes: ShownClasses | None = None
    errors: ShownErrors | None = None
    images: Sequence[Mapping[str, Any]] = ()
    texts: tuple[ShownText, ...] = ()
    dependence: ShownDependence | None = None
    identity: ReportIdentity = ReportIdentity()
    tried: Table = ((), [])


def read_run(name: str, made: RunArtifacts, label: Label) -> ReportData:
    """Returns the facts about a run that has reached the node Report."""
    record, evaluation, statistics = made.training, made.uri("evaluation"), made.uri("statistics")
    verdict, gate = made.verdict, made.data_verdict
    manifests = [read_manifest(artifact.uri) for artifact in made.all("examples")]
    assert verdict is not None and gate is not None  # noqa: S101
    parity = read_json(f"{made.uri('parity')}/parity.json") if made.all("parity") else []
    written = sums(pair for manifest in manifests for pair in manifest.written.items())
    labels = read_split_labels(statistics, label, list(written))
    of_labels = labels.notes({m.metric: m.value for m in verdict.metrics})
    classes = read_class_results(evaluation)
    names = [one.name for one in classes[0].classes] if classes and classes[0] else ()
    with fileio.open(f"{made.uri('comparison')}/comparison.txt") as file:
        schema = file.read()
    with fileio.open(f"{statistics}/Split-train/{STATISTICS_FILE}", "rb") as file:
        columns = read_columns(statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read()))
    return ReportData(
        name=name,
        verdict=verdict,
        **of_importance(record),
        curves=curve_charts(
            read_curves(evaluation), threshold=(record.get("decision") or {}).get("threshold", 0.5), classes=classes
        ),
        training=training_facts(record),
        training_charts=training_charts(record),
        tried=leaderboard_table(record),
        parity={
            "rows": max((int(one["rows"]) for one in parity), default=0),
            "compared": len(parity),
            "mismatches": sum(int(one["mismatches"]) for one in parity),
        },
        serving=_serving(read_json(f"{made.uri('serving')}/serving.json")) if made.all("serving") else "",
        gate=gate_section(gate),
        data=_data(manifests, written),
        data_notes=(*_data_notes(made.all("examples"), manifests), *(f"{words}." for words in of_labels)),
        columns=columns,
        schema=schema,
        pushed_to=made.pushed_to or "",
        served_instead=made.served_instead or "",
        classes=classes_section(classes, verdict.examples),
        errors=errors_section(read_regression_errors(evaluation)),
        images=shown_images(record),
        texts=read_texts(evaluation),
        dependence=dependence_section(read_dependence(evaluation), names),
        identity=identity(record, made.all("examples"), manifests),
    )


def of_importance(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what `training.json` tells of the simple reference and of the features, by field of `ReportData`."""
    entries = record.get("importance", ())
    shown = [one for one in entries[:_SHOWN_FEATURES] if one["importance"] > 0]
    bars, reach = ({one["feature"]: one[key] for one in shown} for key in ("importance", "reach"))
    return {
        "reference": reference_words(record.get("reference")),
        "importance": entries,
        "importance_chart": bar_chart(bars, unit="importance", reach=reach, label=_IMPORTANT) if shown else Markup(""),
        "importance_unit": "log loss" if record.get("classes") else _OF_VARIANCE,
    }


def shown_images(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the images in `training.json`; long names of classes are cut."""
    return [
        {**one, **{key: short_label(one[key], _LONGEST_NAME) for key in ("label", "prediction")}}
        for one in record.get("images", ())
        if _BASE64.fullmatch(one["png"])
    ]


def _serving(facts: Mapping[str, Any]) -> str:
    one, slow, batch = facts["latency_ms"], facts["latency_p99_ms"], facts["batch_ms"]
    return (
        f"The export was called in a new process with TensorFlow {facts['tensorflow']} only: {one:.2f} ms for one "
        f"row (99 of 100 within {slow:.2f} ms), {batch:.1f} ms for {facts['batch_rows']:,} rows, "
        f"{facts['load_seconds']:.1f} s to load."
    )


def _data(manifests: Sequence[Manifest], written: Mapping[str, int]) -> Facts:
    return (
        ("files", f"{sum(len(manifest.files) for manifest in manifests):,}"),
        ("rows read", f"{sum(manifest.read for manifest in manifests):,}"),
        ("written", ", ".join(f"{split} {rows:,}" for split, rows in written.items())),
        ("quarantined", f"{sum(sum(manifest.quarantined.values()) for manifest in manifests):,}"),
    )


def _data_notes(examples: Sequence[RecordedArtifact], manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yields what needs attention. examples, manifests: the spans and what was read of each."""
    reasons = sums(pair for m in manifests for pair in m.quarantined.items())
    yield from (f"{rows:,} rows quarantined: {why}" for why, rows in sorted(reasons.items(), key=lambda r: -r[1]))
    quarantined = [artifact for artifact, m in zip(examples, manifests, strict=True) if m.quarantined]
    yield from (f"the text of these rows: {path}" for path in quarantines(quarantined))
    yield from (f"{overlap.words}." for manifest in manifests for overlap in manifest.overlaps if overlap.rows)
    yield from (f"{unmatched_words(j.name, j.unmatched, m.read)}." for m in manifests for j in m.joins)
    yield from (f"{words}." for words in left_out_words(sums(pair for m in manifests for pair in m.left_out.items())))
    yield from (f"{history_words(h.name, h.cut, h.without, m.read)}." for m in manifests for h in m.histories)


def quarantines(examples: Sequence[RecordedArtifact]) -> list[str]:
    """Returns the paths of the files of quarantined rows, or their addresses if the examples are in an object store."""
    return [f"{artifact.address}/{QUARANTINE}" for artifact in examples]
