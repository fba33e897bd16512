"""The summary of a run, read from its artifacts: rows, metrics against thresholds, the verdict with its reasons."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fullpass.base import state_file
from fullpass.base.redact import redact_tree
from fullpass.components.artifact_files import PAGE
from fullpass.components.data_gate.gate_verdict import GateVerdict
from fullpass.components.evaluation.judge.verdict import Verdict
from fullpass.components.ingest.writing.manifest import LEFT_OUT, Overlap, left_out_sum
from fullpass.components.mlmd_values import RecordedArtifact
from fullpass.components.push.pushed_version import PushedVersion, pushed_version, pushed_version_of
from fullpass.components.run_artifacts import RunArtifacts
from fullpass.components.statistics.split_labels import SplitLabels, read_split_labels
from fullpass.components.transform.analysis_plan import Analysis, read_analysis
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.record.events import RunResult, Status
from fullpass.pipeline.record.training_summary import TrainingFacts, Trials, read_trials

DATA_GATE = "DataGate"
_READ = (Status.OK, Status.CACHED, Status.REUSED)
_OUTPUTS = {
    "examples": "Ingest.examples",
    "statistics": "StatisticsGen.statistics",
    "comparison": "SchemaComparison.comparison",
    "spans": "SpanComparison.comparison",
    "transform_graph": "Transform.transform_graph",
    "tuner_results": "Tuner.tuner_results",
    "model": "Trainer.model",
    "model_run": "Trainer.model_run",
    "parity": "Parity.report",
    "evaluation": "Evaluator.evaluation",
    "blessing": "Evaluator.blessing",
    "serving": "ServingCheck.report",
    "pushed": "Pusher.pushed_model",
    "report": "Report.report",
}
"""Name in RunArtifacts -> node and output."""
_COPIED = (
    *("rows", "rows_per_second", "rows_quarantined", "spans_without_rows", "model", "pushed_to", "report"),
    *("model_run", "evaluation"),
)
"""The facts of a summary that its file holds as they are."""


@dataclass(frozen=True)
class RunSummary:
    """The facts of a run; a fact is None if the run ended before it was known.

    Attributes:
        spans_without_rows: Labels of the spans of the window whose files hold no row; `(the newest)` marks the newest.
        overlaps: For each pair of splits, the rows that are in both.
        unmatched: Name of a join -> number of rows without a match.
        histories: Name of a history -> number of rows whose list is cut, and of rows without an entity or date.
        left_out: Reason -> number of rows that are in no split and not bad.
        labels: The labels of each split.
        newly_pushed: False if this model was pushed before.
        model_run: The folder of the Trainer's training records.
        evaluation: The folder of the Evaluator's measurements.
        unread: Whether not even the metadata could be read, so the outputs of the run are unknown.
    """

    rows: dict[str, int] | None = None
    rows_read: int = 0
    rows_per_second: int = 0
    rows_quarantined: int = 0
    spans_without_rows: tuple[str, ...] = ()
    quarantine: tuple[str, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    unmatched: Mapping[str, int] = field(default_factory=dict)
    histories: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    labels: SplitLabels | None = None
    analysis: Analysis | None = None
    schema_differences: int = 0
    verdict: Verdict | None = None
    model: str | None = None
    pushed: PushedVersion | None = None
    newly_pushed: bool = False
    parity_rows: int | None = None
    latency_ms: float | None = None
    report: str | None = None
    model_run: str | None = None
    evaluation: str | None = None
    training: TrainingFacts | None = None
    trials: Trials | None = None
    data: GateVerdict | None = None
    unread: bool = False

    @property
    def pushed_to(self) -> str | None:
        """The folder of the version that the model was pushed as, in this run or an earlier one."""
        return self.pushed.folder if self.pushed else None

    @property
    def measured(self) -> dict[str, Any]:
        """The facts that the history keeps after the logs of the run are gone: its number of rows and its metrics."""
        metrics = self.verdict.metrics if self.verdict else ()
        return {
            "rows_read": self.rows_read,
            "blessed": self.verdict and self.verdict.blessed,
            "metrics": {m.metric: m.value for m in metrics},
        }


def stopped_by_gate(result: RunResult) -> bool:
    """Returns whether the data gate stopped a run."""
    return any(node.id == DATA_GATE and node.status is Status.FAILED for node in result.nodes)


def run_artifacts(
    result: RunResult, outputs: Callable[[str], Mapping[str, Sequence[RecordedArtifact]]]
) -> RunArtifacts:
    """Returns what a run has made.

    Args:
        outputs: Returns the artifacts of a node, by output name.
    """
    ended = {node.id for node in result.nodes if node.status in _READ}
    by_name = {}
    for name, source in _OUTPUTS.items():
        node, output = source.split(".")
        by_name[name] = outputs(node).get(output, ()) if node in ended else ()
    if "Window" in ended:
        by_name["examples"] = outputs("Window").get("examples", ())
    return RunArtifacts(by_name)


def unreadable_summary(result: RunResult) -> RunSummary:
    """Returns the summary of a run whose metadata and artifacts cannot be read."""
    return RunSummary(unread=any(node.id == "Evaluator" and node.status in _READ for node in result.nodes))


def metadata_summary(result: RunResult, made: RunArtifacts) -> RunSummary:
    """Returns the verdict and the model of a run from the metadata alone, for a run whose files cannot be read."""
    why = () if made.blessed else ("the measurements cannot be read",)
    pushed, model = made.find("pushed"), made.find("model")
    return RunSummary(
        verdict=None if made.blessed is None else Verdict(made.blessed, why, metrics=(), examples=0),
        model=model.uri if model else None,
        pushed=pushed_version(made.pushed_to) if made.pushed_to else None,
        newly_pushed=bool(pushed and pushed.properties.get("created") and result.node("Pusher").status is Status.OK),
    )


def summarize(result: RunResult, made: RunArtifacts, config: PipelineConfig) -> RunSummary:
    """Reads the facts from the artifacts of a run."""
    examples, splits = made.all("examples"), config.data.split_names
    graph, comparison = made.find("transform_graph"), made.find("comparison")
    parity, serving = made.find("parity"), made.find("serving")
    page = "report" if made.all("report") else "spans" if made.all("spans") and stopped_by_gate(result) else None
    analysed = graph is not None and result.node("Transform").status is Status.OK
    analysis = graph.properties.get("analysis") if graph and analysed else None
    return replace(
        metadata_summary(result, made),
        rows={split: _total(examples, f"rows_{split}") for split in splits} if examples else None,
        rows_read=_total(examples, "rows_read"),
        rows_per_second=int(examples[0].properties.get("rows_per_second", 0)) if len(examples) == 1 else 0,
        rows_quarantined=_total(examples, "rows_quarantined"),
        spans_without_rows=_without_rows(examples),
        quarantine=tuple(f"{e.uri}/quarantine.parquet" for e in examples if e.properties.get("rows_quarantined")),
        overlaps=_overlaps(examples, splits),
        unmatched={name: _total(examples, f"unmatched_{name}") for name in config.data.joins} if examples else {},
        histories={
            name: (_total(examples, f"history_cut_{name}"), _total(examples, f"history_without_{name}"))
            for name in config.data.history
            if examples
        },
        left_out=left_out_sum(str(e.properties.get(LEFT_OUT) or "") for e in examples),
        labels=read_split_labels(made.uri("statistics"), config.label, splits) if made.all("statistics") else None,
        analysis=read_analysis(str(analysis)) if analysis else None,
        schema_differences=int(comparison.properties.get("differences", 0)) if comparison else 0,
        verdict=made.verdict,
        parity_rows=int(parity.properties["rows"]) if parity else None,
        latency_ms=float(serving.properties["latency_ms"]) if serving else None,
        report=f"{made.uri(page)}/{PAGE}" if page else None,
        model_run=made.uri("model_run") if made.all("model_run") else None,
        evaluation=made.uri("evaluation") if made.all("evaluation") else None,
        training=TrainingFacts.of(made.training) if made.training else None,
        trials=read_trials(made.uri("tuner_results"), config) if made.all("tuner_results") else None,
        data=made.data_verdict,
    )


def _without_rows(examples: Sequence[RecordedArtifact]) -> tuple[str, ...]:
    newest = max((int(e.properties.get("span", 0)) for e in examples), default=0)
    return tuple(
        f"{e.properties.get('label')}{' (the newest)' if e.properties.get('span', 0) == newest else ''}"
        for e in examples
        if e.properties.get("rows_read") == 0
    )


def _overlaps(examples: Sequence[RecordedArtifact], splits: Sequence[str]) -> tuple[Overlap, ...]:
    pairs = [(first, second) for first in splits for second in splits if first != second]
    return tuple(
        Overlap(first, second, _total(examples, f"overlap_{second}_{first}"), _total(examples, f"rows_{second}"))
        for first, second in pairs
    )


def with_push_of_person(summary: RunSummary, target: Path) -> RunSummary:
    """Returns the summary with the version of a model that the Evaluator refused, and a person blessed before."""
    if summary.verdict is None or summary.verdict.blessed or summary.model is None:
        return summary
    return replace(summary, pushed=pushed_version_of(summary.model, target))


def write_summary(summary: RunSummary, result: RunResult, path: Path) -> None:
    """Writes the summary for other programs as a state file (fullpass/base/state_file.py), atomically."""
    measured = summary.verdict or Verdict(blessed=False, reasons=(), metrics=(), examples=0)
    facts = {
        "run_id": result.run_id,
        "ok": result.ok,
        "seconds": round(result.seconds, 3),
        **{name: getattr(summary, name) for name in _COPIED},
        "rows_in_two_splits": {f"{o.second} in {o.first}": o.rows for o in summary.overlaps},
        "rows_unmatched": summary.unmatched,
        "histories_cut": {name: cut for name, (cut, _) in summary.histories.items()},
        "rows_left_out": summary.left_out,
        "uneven_labels": [imbalance.words for imbalance in summary.labels.uneven] if summary.labels else [],
        "new_labels": [new.words for new in summary.labels.new] if summary.labels else [],
        "analysis": asdict(summary.analysis) if summary.analysis else None,
        "reasons": measured.reasons,
        "notes": measured.notes,
        **summary.measured,
        "baseline": {m.metric: m.baseline for m in measured.metrics if m.baseline is not None},
        "baselines": measured.baselines,
        "newest_span": {m.metric: {"value": m.value, "baseline": m.baseline} for m in measured.newest},
        "data_gate": _gate_facts(summary.data) if summary.data else None,
        "training": asdict(summary.training) if summary.training else None,
        "trials": summary.trials.records() if summary.trials else None,
        "served": summary.pushed.served if summary.pushed else None,
        "nodes": {
            n.id: {
                "status": n.status.value,
                "seconds": round(n.seconds, 3),
                "cpu_seconds": round(n.cpu_seconds, 3),
                "peak_mib": round(n.peak_mib),
            }
            for n in result.nodes
        },
    }
    state_file.write(path, redact_tree(facts), indent=1)


def _gate_facts(data: GateVerdict) -> dict[str, object]:
    return {
        "span": data.span,
        "compared_with": [against for against in (data.previous, data.window) if against],
        "stopped": data.stopped,
        "retrain": data.retrain,
        "released": [one.words for one in data.released],
        "gaps": [one.words for one in data.gaps],
        "findings": [
            {name: getattr(f, name) for name in ("check", "subject", "policy", "text")} for f in data.findings
        ],
    }


def _total(artifacts: Sequence[RecordedArtifact], name: str) -> int:
    return sum(int(artifact.properties.get(name, 0)) for artifact in artifacts)
