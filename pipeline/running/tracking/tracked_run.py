"""Collects the facts of a run for a tracking server: parameters, metrics, verdicts, trials. It never imports MLflow."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fullpass.base.json_text import to_json_text
from fullpass.base.redact import redact_tree
from fullpass.components.evaluation.config import SliceBounds
from fullpass.components.evaluation.evaluation_verdict import Measured, Verdict
from fullpass.components.evaluation.metrics import METRICS
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.running.execution.events import Status
from fullpass.pipeline.running.history import RunRecord
from fullpass.pipeline.running.record_provenance import RUN_FACTS_FILE
from fullpass.pipeline.running.run_outcome import FinishedRun
from fullpass.pipeline.running.run_summary import Summary
from fullpass.trainer.export.run_provenance import TRAINING_FILE

_SECTIONS = ("label", "model", "training")
_EVALUATION = "val_"
_OF_TRAINING = ("batch_size", "parameters", "best_epoch", "ended_by", "devices")
_DOCUMENTS = (".html", ".md")
_ENOUGH_EXAMPLES = SliceBounds.model_fields["min_examples"].default
_GOOD = ("success", "not_blessed")


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracking server records it.

    Attributes:
        experiment: The name of the experiment.
        name: The id of the run.
        failed: Whether the run ended without a verdict on a model.
        started, ended: Milliseconds since 1970.
        params: Settings, and their resolved values in the Trainer.
        tags: Outcome, verdicts, and the provenance of the run.
        metrics: Name -> values as (step, value); the step of a training metric is its epoch.
        texts: Name of a file -> its content.
        files: Files to store.
        trials: The trials of a search in this run, best first: params and metrics.
    """

    experiment: str
    name: str
    failed: bool
    started: int
    ended: int
    params: Mapping[str, str]
    tags: Mapping[str, str]
    metrics: Mapping[str, list[tuple[int, float]]]
    texts: Mapping[str, str]
    files: tuple[str, ...]
    trials: tuple[dict[str, dict[str, Any]], ...]

    def to_json(self) -> bytes:
        """Returns the run as a JSON object in UTF-8, without secrets."""
        return to_json_text(redact_tree(vars(self))).encode()


def tracked_run(finished: FinishedRun, record: RunRecord) -> TrackedRun:
    """Returns the facts of a run, whose pipeline has a section `mlflow`, and of its record in the history."""
    config, summary = finished.loaded.config, finished.summary
    assert config.mlflow is not None  # noqa: S101
    training = _json(Path(summary.model_run) / TRAINING_FILE) if summary.model_run else {}
    facts = _json(RootLayout(finished.root).run_logs(record.run_id) / RUN_FACTS_FILE)
    texts, files = _files(summary, facts) if config.mlflow.files else ({}, ())
    tuned = any(node.id == "Tuner" and node.status is Status.OK for node in finished.result.nodes)
    return TrackedRun(
        experiment=config.mlflow.experiment or config.name,
        name=record.run_id,
        failed=record.outcome not in _GOOD,
        started=_milliseconds(record.started),
        ended=_milliseconds(record.ended),
        params=_params(config, training),
        tags=_tags(record, finished, facts),
        metrics={name: values for name, values in _metrics(finished, training) if values},
        texts=texts,
        files=files,
        trials=_trials(summary) if tuned else (),
    )


def flattened(section: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yields the settings of a section as pairs of YAML path and text.

    Example:
        >>> list(flattened({"kind": "mlp", "hidden": [64, 32], "other": {"l2": 0.1}}, "model"))
        [('model.kind', 'mlp'), ('model.hidden', '[64, 32]'), ('model.other.l2', '0.1')]
    """
    for key, value in section.items():
        path = f"{prefix}.{key}"
        if isinstance(value, Mapping) and value:
            yield from flattened(value, path)
        else:
            yield path, value if isinstance(value, str) else to_json_text(value)


def _params(config: PipelineConfig, training: Mapping[str, Any]) -> dict[str, str]:
    """Returns the settings of model and training; values that a search found replace those of the YAML."""
    dumped = config.model_dump(mode="json")
    params = {path: text for section in _SECTIONS for path, text in flattened(dumped[section], section)}
    params["features"] = ", ".join(config.all_features)
    params["data.split"] = to_json_text(dumped["data"]["split"])
    params |= {f"trained.{name}": str(training[name]) for name in _OF_TRAINING if name in training}
    found = training.get("hyperparameters") or {}
    return params | {path: value if isinstance(value, str) else to_json_text(value) for path, value in found.items()}


def _tags(record: RunRecord, finished: FinishedRun, facts: Mapping[str, Any]) -> dict[str, str]:
    summary, result = finished.summary, finished.result
    code = facts.get("code", {})
    first_span, span = finished.span_labels or (None, None)
    tags = {
        "mlflow.source.name": str(finished.loaded.file.absolute()),
        "mlflow.source.type": "PROJECT",
        "mlflow.source.git.commit": code.get("commit"),
        "fullpass.pipeline": finished.loaded.config.name,
        "fullpass.version": code.get("fullpass"),
        "fullpass.code": code.get("source"),
        "fullpass.config": facts.get("config", {}).get("hash"),
        "fullpass.outcome": record.outcome,
        "fullpass.message": record.message,
        "fullpass.first_span": first_span,
        "fullpass.span": span,
        "fullpass.occasion": record.occasion,
        "fullpass.model": summary.model,
        "fullpass.pushed_to": summary.pushed_to if summary.newly_pushed else None,
        "fullpass.trainer": next((node.status.value for node in result.nodes if node.id == "Trainer"), None),
    }
    if summary.verdict is not None:
        tags |= _verdict_tags(summary.verdict)
    if summary.data is not None:
        tags["fullpass.data_gate"] = "; ".join(found.text for found in summary.data.findings) or "nothing moved"
    return {name: value for name, value in tags.items() if value}


def _verdict_tags(verdict: Verdict) -> dict[str, str]:
    tags = {"fullpass.blessed": str(verdict.blessed).lower(), "fullpass.reasons": "; ".join(verdict.reasons)}
    for measured in verdict.metrics:
        if measured.required:
            tags[f"fullpass.gate.{measured.metric}"] = f"{'met' if measured.passed else 'not met'}: {measured.required}"
    return tags


def _metrics(finished: FinishedRun, training: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    """Yields the training curves by epoch, then the final measurements at step 0."""
    for name, values in training.get("history", {}).items():
        of_eval = name.startswith(_EVALUATION)
        key = f"validation/{name.removeprefix(_EVALUATION)}" if of_eval else f"train/{name}"
        yield key, [(epoch, value) for epoch, value in enumerate(values, 1) if math.isfinite(value)]
    for name, value in _last_metrics(finished):
        yield name, [(0, value)] if math.isfinite(value) else []


def _last_metrics(finished: FinishedRun) -> Iterator[tuple[str, float]]:
    summary = finished.summary
    yield "seconds", finished.result.seconds
    for split, rows in (summary.rows or {}).items():
        yield f"rows/{split}", rows
    if summary.verdict is None:
        return
    for measured in summary.verdict.metrics:
        yield from _with_interval(f"eval/{measured.metric}", measured)
        if measured.baseline is not None:
            yield f"baseline/{measured.metric}", measured.baseline
    for measured in summary.verdict.newest:
        yield f"newest_span/{measured.metric}", measured.value
    yield from _worst_slices(summary.verdict)


def _with_interval(name: str, measured: Measured) -> Iterator[tuple[str, float]]:
    yield name, measured.value
    if measured.half_width is not None:
        yield f"{name}_low", measured.value - measured.half_width
        yield f"{name}_high", measured.value + measured.half_width


def _worst_slices(verdict: Verdict) -> Iterator[tuple[str, float]]:
    """Yields the number of slices with enough rows, and for each metric with a better side its worst value on them."""
    slices = [one for one in verdict.slices if not one.newest and one.examples >= _ENOUGH_EXAMPLES]
    if slices:
        yield "slices", len(slices)
    for name in (measured.metric for measured in verdict.metrics):
        values = [one.values[name] for one in slices if name in one.values]
        better = METRICS[name].higher_is_better
        if values and better is not None:
            yield f"worst_slice/{name}", min(values) if better else max(values)


def _files(summary: Summary, facts: Mapping[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    texts = {"pipeline.yaml": facts["config"]["yaml"]} if "config" in facts else {}
    slices = summary.verdict.slices if summary.verdict else ()
    if slices:
        of_slices = [
            {
                "slice": one.name,
                "examples": one.examples,
                "newest_span": one.newest,
                **one.values,
                "missed": sorted(one.failed),
            }
            for one in slices
        ]
        texts["slices.json"] = to_json_text(of_slices, indent=1)
    folder = Path(summary.report).parent if summary.report else None
    files = sorted(file for file in folder.iterdir() if file.suffix in _DOCUMENTS) if folder else []
    return texts, tuple(map(str, files))


def _trials(summary: Summary) -> tuple[dict[str, dict[str, Any]], ...]:
    if summary.trials is None:
        return ()
    objective = f"validation/{summary.trials.objective}"
    return tuple(
        {"params": {path: to_json_text(value) for path, value in values.items()}, "metrics": {objective: score}}
        for score, values in summary.trials.rows
    )


def _milliseconds(instant: str) -> int:
    return int(datetime.fromisoformat(instant).timestamp() * 1000)


def _json(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
