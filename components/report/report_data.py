"""The facts of the report, read from the artifacts of a run."""

import math
import re
from collections.abc import Mapping, Sequence
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
from fullpass.components.pages.charts import bar_chart, histogram, line_chart, short_label
from fullpass.components.report.classes import ShownClasses, classes_section, curve_charts
from fullpass.components.report.dependence import ShownDependence, dependence_section
from fullpass.components.report.identity import ReportIdentity, identity
from fullpass.components.report.regression import ShownErrors, errors_section
from fullpass.components.run_artifacts import RunArtifacts
from fullpass.components.statistics.split_labels import read_split_labels
from fullpass.preprocessing.features.label import Label
from fullpass.trainer.config import VALIDATION
from fullpass.trainer.insight.words import chosen_on, epochs_words, reference_words, tried_words

_SHOWN_FEATURES, _TOP_VALUES, _LONGEST_NAME = 20, 3, 40
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_BYTES = "__BYTES_VALUE__"
"""Placeholder in TFDV's statistics for each value that is not UTF-8."""
_KINDS = statistics_pb2.FeatureNameStatistics.Type


@dataclass(frozen=True)
class Importance:
    """The permutation importance of a feature. reach: half width of its 95 % interval."""

    feature: str
    importance: float
    reach: float

    @property
    def certain(self) -> bool:
        """Whether the 95 % interval excludes 0."""
        return self.importance > self.reach


@dataclass(frozen=True)
class Insight:
    """The facts of the section.

    Attributes:
        reference: A sentence, "" if there is none.
        baselines: A sentence per baseline of a forecast.
        unit: Unit of the importance, as text.
    """

    reference: str
    baselines: tuple[str, ...]
    features: tuple[Importance, ...]
    chart: Markup
    unit: str


def insight_section(record: Mapping[str, Any], baselines: tuple[str, ...] = ()) -> Insight:
    """Returns the facts about the simple reference, the baselines and the features; record: `training.json`."""
    importances = tuple(Importance(**entry) for entry in record.get("importance", ()))
    shown = {entry.feature: entry.importance for entry in importances[:_SHOWN_FEATURES] if entry.importance > 0}
    return Insight(
        reference=reference_words(record.get("reference")),
        baselines=baselines,
        features=importances,
        chart=bar_chart(shown, unit="", label="importance of features") if shown else Markup(""),
        unit="log loss" if record.get("classes") else "squared error, in shares of the label's variance",
    )


@dataclass(frozen=True)
class ShownImage:
    """An image and its prediction. png: the image in base64. probability: probability of the predicted class."""

    png: str
    label: str
    prediction: str
    probability: float
    right: bool


@dataclass(frozen=True)
class Images:
    """The images of the section; none for a model without images."""

    wrong: tuple[ShownImage, ...] = ()
    right: tuple[ShownImage, ...] = ()


def image_section(record: Mapping[str, Any]) -> Images:
    """Returns the images in `training.json`; long names of classes are cut."""
    images = [
        ShownImage(
            png=entry["png"],
            label=short_label(entry["label"], _LONGEST_NAME),
            prediction=short_label(entry["prediction"], _LONGEST_NAME),
            probability=float(entry["probability"]),
            right=bool(entry["right"]),
        )
        for entry in record.get("images", ())
        if _BASE64.fullmatch(entry["png"])
    ]
    return Images(tuple(i for i in images if not i.right), tuple(i for i in images if i.right))


@dataclass(frozen=True)
class ReportedColumn:
    """A raw column. missing: share of rows without a value. bars: counts per bucket, or of the most common values."""

    name: str
    kind: str
    missing: float
    text: str
    bars: tuple[float, ...]


def read_columns(statistics: statistics_pb2.DatasetFeatureStatisticsList) -> tuple[ReportedColumn, ...]:
    """Returns the columns of the first dataset, sorted by name."""
    data = statistics.datasets[0]
    columns = [_column(feature, int(data.num_examples)) for feature in data.features]
    return tuple(sorted(columns, key=lambda column: column.name))


def _column(feature: statistics_pb2.FeatureNameStatistics, rows: int) -> ReportedColumn:
    name = ".".join(feature.path.step) or feature.name
    is_number = feature.WhichOneof("stats") == "num_stats"
    common = (feature.num_stats if is_number else feature.string_stats).common_stats
    missing = 1 - common.num_non_missing / rows if rows else 0.0
    if not common.num_non_missing:
        return ReportedColumn(name, _KINDS.Name(feature.type).lower(), missing, "no value", ())
    if is_number:
        kind, (text, bars) = "number", _numbers(feature.num_stats)
    elif {value.value for value in feature.string_stats.top_values} == {_BYTES}:
        stats = feature.string_stats
        kind, bars = "bytes", ()
        text = f"{stats.unique:,} different values of {stats.avg_length:,.0f} bytes on average"
    else:
        kind, (text, bars) = "text", _texts(feature.string_stats)
    return ReportedColumn(name, kind, missing, _lengths(common) + text, bars)


def _lengths(common: statistics_pb2.CommonStatistics) -> str:
    """Returns the lengths of a column's lists as text; empty for a column of single values."""
    least, most = common.min_num_values, common.max_num_values
    if most <= 1:
        return ""
    return f"lists of {least}; " if least == most else f"lists of {least} to {most}, mean {common.avg_num_values:.3g}; "


def _numbers(stats: statistics_pb2.NumericStatistics) -> tuple[str, tuple[float, ...]]:
    text = f"{stats.min:g} to {stats.max:g}, mean {stats.mean:.4g}, median {stats.median:.4g}"
    standard = next((h for h in stats.histograms if h.type == statistics_pb2.Histogram.STANDARD), None)
    return text, tuple(bucket.sample_count for bucket in standard.buckets) if standard else ()


def _texts(stats: statistics_pb2.StringStatistics) -> tuple[str, tuple[float, ...]]:
    total = stats.common_stats.tot_num_values or stats.common_stats.num_non_missing
    top = ", ".join(
        f"{'bytes that are not UTF-8' if value.value == _BYTES else value.value} ({value.frequency / total:.0%})"
        for value in stats.top_values[:_TOP_VALUES]
    )
    text = f"{stats.unique:,} values" + (f": {top}" if top else "")
    return text, tuple(bucket.sample_count for bucket in stats.rank_histogram.buckets[:20])


Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ShownColumn:
    """A raw column and its distribution in train."""

    column: ReportedColumn
    chart: Markup


@dataclass(frozen=True)
class Data:
    """The ingested data. facts: name and value. notes: facts that need attention. schema: text of SchemaComparison."""

    facts: Facts
    notes: tuple[str, ...]
    columns: tuple[ShownColumn, ...]
    schema: str


@dataclass(frozen=True)
class ReportedTraining:
    """The training. facts: name and value. curves, step, seconds: charts; step is empty for trees."""

    facts: Facts
    curves: Markup
    step: Markup
    seconds: Markup


@dataclass(frozen=True)
class Parity:
    """The result of Parity: numbers of compared rows, of comparisons (`compared`), and of rows that differ."""

    rows: int
    compared: int
    mismatches: int


@dataclass(frozen=True)
class ReportData:
    """The facts of the whole page.

    Attributes:
        curves: Empty if the metrics need no histograms of all classes.
        classes: None for a regression, and if no metric needs them.
        errors: None if the task is no regression.
        dependence: None if no importance was measured.
        served_instead: The version that was served after the push of another; "" if the pushed one was.
    """

    name: str
    verdict: Verdict
    insight: Insight
    curves: tuple[Markup, ...]
    training: ReportedTraining
    parity: Parity
    serving: str
    gate: Gate
    data: Data
    pushed_to: str
    served_instead: str = ""
    classes: ShownClasses | None = None
    errors: ShownErrors | None = None
    images: Images = Images()
    texts: tuple[ShownText, ...] = ()
    dependence: ShownDependence | None = None
    identity: ReportIdentity = ReportIdentity()


def read_run(name: str, made: RunArtifacts, label: Label) -> ReportData:
    """Returns the facts about a run that has reached the node Report."""
    record, evaluation = made.training, made.uri("evaluation")
    verdict, gate = made.verdict, made.data_verdict
    manifests = [read_manifest(artifact.uri) for artifact in made.all("examples")]
    assert verdict is not None and gate is not None  # noqa: S101
    return ReportData(
        name=name,
        verdict=verdict,
        curves=curve_charts(read_curves(evaluation)),
        errors=errors_section(read_regression_errors(evaluation)),
        classes=classes_section(read_class_results(evaluation), verdict.examples),
        insight=insight_section(record, verdict.baselines),
        images=image_section(record),
        texts=read_texts(evaluation),
        dependence=dependence_section(read_dependence(evaluation)),
        training=training(record),
        parity=_parity(read_json(f"{made.uri('parity')}/parity.json")),
        serving=_serving(read_json(f"{made.uri('serving')}/serving.json")),
        gate=gate_section(gate),
        data=_data(made, manifests, verdict, label),
        identity=identity(record, made.all("examples"), manifests),
        pushed_to=made.pushed_to or "",
        served_instead=made.served_instead or "",
    )


def training(record: Mapping[str, Any]) -> ReportedTraining:
    """Returns the facts and charts of `training.json`."""
    counts = {split: f"{rows:,}" for split, rows in record["rows"].items()}
    facts = [
        ("examples", ", ".join(f"{split} {rows}" for split, rows in counts.items())),
        ("epochs", epochs_words(record)),
        *_of_model(record),
    ]
    if record.get("compared"):
        facts.append(("kept model", tried_words(record)))
    split = chosen_on(record)
    if split == "eval":
        facts.append(("chosen on", "eval, which judges too; to judge by other rows, add a split named validation"))
    if record.get("folds"):  # older records have none
        facts.append(("folds", f"{record['folds']} of train choose trees, linear model, and their shares of a blend"))
    waited = record["step_ms"] * record["input_wait"]
    step = {"waiting for input": waited, "model update": record["step_ms"] - waited}
    if record["classes"]:
        facts.append(("classes", "; ".join(f"{name}: {rows:,}" for name, rows in record["classes"].items())))
    if record.get("calibration"):
        facts.append(("calibration", _calibration(record["calibration"], split)))
    if record.get("decision"):
        facts.append(("decision", _decision(record["decision"], split)))
    if quantiles := _quantiles(record["history"], record["best_epoch"], split):
        facts.append(("quantiles", quantiles))
    losses = {name: record["history"][name] for name in ("loss", "val_loss") if record["history"].get(name)}
    return ReportedTraining(
        facts=tuple(facts),
        curves=line_chart(losses, label="loss per epoch", marks=record.get("restarts", ())),
        step=Markup("") if record.get("trees") else bar_chart(step, unit="ms", label="milliseconds of a training step"),
        seconds=bar_chart(record["seconds"], unit="s", label="seconds spent in training"),
    )


def _of_model(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    of_trees = _of_trees(record) if record.get("trees") else []
    tried = record.get("compared") or {"": 0.0}
    if (record.get("blend") or {}).get("kept") or min(tried, key=lambda kind: tried[kind]) == "linear":
        return [*of_trees[:1], ("parameters", f"{record['parameters']:,}")]
    return of_trees or _of_network(record)


def _of_network(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("batch size", f"{record['batch_size']:,}, {record['steps_per_epoch']:,} steps an epoch"),
        ("parameters", f"{record['parameters']:,}"),
        ("speed", f"{record['examples_per_second']:,} examples/s on {record['devices']}, {record['precision']}"),
        ("input", f"awaited in {record['input_wait']:.0%} of the time; the train split is {record['input']['train']}"),
    ]


def _of_trees(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    trees = record["trees"]
    forests = trees.get("forests", 0)  # older records have none
    drawn = f", {trees['random']} of them with random thresholds" if trees.get("random") else ""
    rows = "train and validation" if chosen_on(record) == VALIDATION else "all rows of train"
    again = f", in {forests} forests that grew on {rows}{drawn}" if forests else ""
    return [
        ("trees", f"{trees['trees']:,} with {trees['leaves']:,} leaves{again}; an epoch is ten rounds"),
        ("speed", f"{record['step_ms']:,.1f} ms a round on {record['devices']}"),
    ]


def _quantiles(history: Mapping[str, Sequence[float]], epoch: int, split: str) -> str:
    """Returns the share of labels below each quantile and its pinball loss, as text; "" without quantiles."""
    name = "val_coverage_"
    levels = [key.removeprefix(name) for key in history if key.startswith(name)]
    shares = {level: history[f"{name}{level}"][epoch - 1] for level in levels}
    losses = {level: history.get(f"val_pinball_{level}", [])[epoch - 1 : epoch] for level in levels}
    parts = [f"{level}: {shares[level]:.1%}" + "".join(f", loss {v:.4g}" for v in losses[level]) for level in levels]
    said = f"share of the {split} split's labels below each quantile, and pinball loss: {'; '.join(parts)}"
    return said if parts else ""


def _decision(record: Mapping[str, Any], split: str) -> str:
    """Returns the chosen threshold, as text; intervals are of 95 %."""
    value = f"{record['measured']} {record['value']:.4g} ({record['value_low']:.4g} to {record['value_high']:.4g})"
    text = (
        f"the positive class is predicted above a probability of {record['threshold']:.4g} "
        f"({record['low']:.4g} to {record['high']:.4g}); {value} on {record['rows']:,} rows of the {split} split, on "
        "which it was chosen"
    )
    return text if record["reached"] else f"{text}; no threshold reaches the required precision"


def _calibration(record: Mapping[str, Any], split: str) -> str:
    if "deviation" in record:
        raised = math.exp(record["shift"][0])
        return (
            f"the standard deviation of the logarithm's error is {record['deviation']:.3f}; predictions are the mean, "
            f"which is {raised:.3f} times the median"
        )
    before, after = record["before"], record["after"]
    gap = f"probabilities and shares of the {split} split differ by {after['gap']:.3f}"
    if record["scale"] == 1 and not any(record["shift"]):
        return f"{gap}; a correction would gain no more than chance"
    losses = f"log loss {before['log_loss']:.4f} to {after['log_loss']:.4f}"
    return f"{gap}, before the correction {before['gap']:.3f}; {losses}"


def _parity(compared: Sequence[Mapping[str, Any]]) -> Parity:
    return Parity(
        rows=max(int(one["rows"]) for one in compared),
        compared=len(compared),
        mismatches=sum(int(one["mismatches"]) for one in compared),
    )


def _serving(facts: Mapping[str, Any]) -> str:
    one, slow, batch = facts["latency_ms"], facts["latency_p99_ms"], facts["batch_ms"]
    return (
        f"The export was called in a new process with TensorFlow {facts['tensorflow']} only: {one:.2f} ms for one "
        f"row (99 of 100 within {slow:.2f} ms), {batch:.1f} ms for {facts['batch_rows']:,} rows, "
        f"{facts['load_seconds']:.1f} s to load."
    )


def _data(made: RunArtifacts, manifests: Sequence[Manifest], verdict: Verdict, label: Label) -> Data:
    examples = made.all("examples")
    written = sums(pair for manifest in manifests for pair in manifest.written.items())
    reasons = sums(pair for manifest in manifests for pair in manifest.quarantined.items())
    facts = (
        ("files", f"{sum(len(manifest.files) for manifest in manifests):,}"),
        ("rows read", f"{sum(manifest.read for manifest in manifests):,}"),
        ("written", ", ".join(f"{split} {rows:,}" for split, rows in written.items())),
        ("quarantined", f"{sum(reasons.values()):,}"),
    )
    notes = [f"{rows:,} rows quarantined: {reason}" for reason, rows in sorted(reasons.items(), key=lambda r: -r[1])]
    quarantined = [artifact for artifact, m in zip(examples, manifests, strict=True) if m.quarantined]
    notes += [f"the text of these rows: {path}" for path in quarantines(quarantined)]
    notes += [f"{overlap.words}." for manifest in manifests for overlap in manifest.overlaps if overlap.rows]
    notes += [f"{unmatched_words(j.name, j.unmatched, m.read)}." for m in manifests for j in m.joins]
    left_out = sums(pair for manifest in manifests for pair in manifest.left_out.items())
    notes += [f"{words}." for words in left_out_words(left_out)]
    notes += [f"{history_words(h.name, h.cut, h.without, m.read)}." for m in manifests for h in m.histories]
    labels = read_split_labels(made.uri("statistics"), label, list(written))
    notes += [f"{words}." for words in labels.notes({m.metric: m.value for m in verdict.metrics})]
    with fileio.open(f"{made.uri('comparison')}/comparison.txt") as file:
        return Data(facts, tuple(notes), _columns(made.uri("statistics")), file.read())


def _columns(statistics: str) -> tuple[ShownColumn, ...]:
    with fileio.open(f"{statistics}/Split-train/{STATISTICS_FILE}", "rb") as file:
        columns = read_columns(statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read()))
    return tuple(ShownColumn(c, histogram(c.bars, label=f"distribution of {c.name}")) for c in columns)


def quarantines(examples: Sequence[RecordedArtifact]) -> list[str]:
    """Returns the paths of the files of quarantined rows, or their addresses if the examples are in an object store."""
    return [f"{artifact.address}/{QUARANTINE}" for artifact in examples]
