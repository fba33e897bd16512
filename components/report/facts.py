"""What the report shows, read from the artifacts of a run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from tfx import types
from tfx.dsl.io import fileio
from tfx.types import artifact_utils

from components.data_gate.verdict import read_verdict as read_verdict_of_data
from components.evaluation.config import EvaluationConfig
from components.evaluation.verdict import Verdict, read_verdict
from components.ingest.manifest import QUARANTINE, read_manifest
from components.lineage import made
from components.report.charts import bar_chart, histogram, line_chart
from components.report.columns import Column, read_columns
from components.report.gate import Gate, gate_section
from trainer.run_facts import TRAINING_FILE

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ShownColumn:
    """A raw column and its distribution in train."""

    column: Column
    chart: Markup


@dataclass(frozen=True)
class Data:
    """facts: name and figure. notes: what needs a look. schema: the comparison's text."""

    facts: Facts
    notes: tuple[str, ...]
    columns: tuple[ShownColumn, ...]
    schema: str


@dataclass(frozen=True)
class Training:
    """facts: name and figure. curves, step, seconds: charts."""

    facts: Facts
    curves: Markup
    step: Markup
    seconds: Markup


@dataclass(frozen=True)
class Parity:
    """rows: compared. compared: features and outputs, each way. mismatches: rows, over all of them."""

    rows: int
    compared: int
    mismatches: int


@dataclass(frozen=True)
class Run:
    """The whole page. pushed_to: empty if this model is not pushed."""

    name: str
    verdict: Verdict
    training: Training
    parity: Parity
    serving: str
    gate: Gate
    data: Data
    pushed_to: str


def read_run(
    *,
    name: str,
    examples: Sequence[types.Artifact],
    statistics: types.Artifact,
    comparison: types.Artifact,
    spans: types.Artifact,
    model_run: types.Artifact,
    parity: types.Artifact,
    evaluation: types.Artifact,
    blessing: types.Artifact,
    serving: types.Artifact,
    pushed: types.Artifact,
    config: EvaluationConfig,
) -> Run:
    """Returns the facts of a run, each read from the artifact that holds it."""
    blessed = bool(blessing.get_int_custom_property("blessed"))
    return Run(
        name=name,
        verdict=read_verdict(evaluation.uri, config, blessed=blessed),
        training=training(_read_json(f"{model_run.uri}/{TRAINING_FILE}")),
        parity=_parity(_read_json(f"{parity.uri}/parity.json")),
        serving=_serving(_read_json(f"{serving.uri}/serving.json")),
        gate=gate_section(read_verdict_of_data(_read_json(f"{spans.uri}/{spans.FILE}"))),
        data=_data(examples, statistics, comparison),
        pushed_to=pushed.get_string_custom_property("pushed_destination") if _is_pushed(pushed) else "",
    )


def _is_pushed(pushed: types.Artifact) -> bool:
    return bool(pushed.get_int_custom_property("pushed"))


def training(record: Mapping[str, Any]) -> Training:
    """Returns what `training.json` says, as it is shown."""
    counts = {split: f"{rows:,}" for split, rows in record["rows"].items()}
    facts = [
        ("examples", ", ".join(f"{split} {rows}" for split, rows in counts.items())),
        ("epochs", f"{record['epochs']}, the best {record['best_epoch']}"),
        ("batch size", f"{record['batch_size']:,}, {record['steps_per_epoch']:,} steps an epoch"),
        ("parameters", f"{record['parameters']:,}"),
        ("speed", f"{record['examples_per_second']:,} examples/s on {record['devices']}, {record['precision']}"),
        ("input", f"awaited in {record['input_wait']:.0%} of the time; the train split is {record['input']['train']}"),
    ]
    waited = record["step_ms"] * record["input_wait"]
    step = {"waiting for input": waited, "the update itself": record["step_ms"] - waited}
    if record["classes"]:
        facts.append(("classes", "; ".join(f"{name}: {rows:,}" for name, rows in record["classes"].items())))
    losses = {name: record["history"][name] for name in ("loss", "val_loss") if record["history"].get(name)}
    return Training(
        facts=tuple(facts),
        curves=line_chart(losses, label="loss per epoch"),
        step=bar_chart(step, unit="ms", label="milliseconds of a training step"),
        seconds=bar_chart(record["seconds"], unit="s", label="seconds spent in training"),
    )


def _parity(compared: Sequence[Mapping[str, Any]]) -> Parity:
    return Parity(
        rows=max(int(one["rows"]) for one in compared),
        compared=len(compared),
        mismatches=sum(int(one["mismatches"]) for one in compared),
    )


def _serving(facts: Mapping[str, Any]) -> str:
    one, slow, batch = facts["latency_ms"], facts["latency_p99_ms"], facts["batch_ms"]
    return (
        f"The export answered in a fresh process that has TensorFlow {facts['tensorflow']} alone: {one:.2f} ms for one "
        f"row (99 of 100 within {slow:.2f} ms), {batch:.1f} ms for {facts['batch_rows']:,} rows, "
        f"{facts['load_seconds']:.1f} s to load."
    )


def _data(examples: Sequence[types.Artifact], statistics: types.Artifact, comparison: types.Artifact) -> Data:
    manifests = [read_manifest(artifact.uri) for artifact in examples]
    written: dict[str, int] = {}
    reasons: dict[str, int] = {}
    for manifest in manifests:
        for counts, more in ((written, manifest.written), (reasons, manifest.quarantined)):
            for key, rows in more.items():
                counts[key] = counts.get(key, 0) + rows
    facts = (
        ("files", f"{sum(len(manifest.files) for manifest in manifests):,}"),
        ("rows read", f"{sum(manifest.read for manifest in manifests):,}"),
        ("written", ", ".join(f"{split} {rows:,}" for split, rows in written.items())),
        ("quarantined", f"{sum(reasons.values()):,}"),
    )
    notes = [f"{rows:,} rows quarantined: {reason}" for reason, rows in sorted(reasons.items(), key=lambda r: -r[1])]
    quarantined = [artifact for artifact, m in zip(examples, manifests, strict=True) if m.quarantined]
    notes += [f"their text: {place}" for place in quarantines(quarantined)]
    notes += [f"{overlap.words}." for manifest in manifests for overlap in manifest.overlaps if overlap.rows]
    return Data(facts, tuple(notes), _columns(statistics), _read_text(f"{comparison.uri}/comparison.txt"))


def _columns(statistics: types.Artifact) -> tuple[ShownColumn, ...]:
    import tensorflow_data_validation as tfdv

    folder = artifact_utils.get_split_uri([statistics], "train")
    columns = read_columns(tfdv.load_stats_binary(f"{folder}/FeatureStats.pb"))
    return tuple(ShownColumn(c, histogram(c.bars, label=f"distribution of {c.name}")) for c in columns)


def _read_json(path: str) -> Any:
    return json.loads(_read_text(path))


def _read_text(path: str) -> str:
    with fileio.open(path) as f:
        return f.read()


def quarantines(examples: Sequence[types.Artifact]) -> list[str]:
    """Returns where the rows lie that were left out of examples: not in a pod's copy, where they are in a store."""
    return [f"{made(artifact.mlmd_artifact).address}/{QUARANTINE}" for artifact in examples]
