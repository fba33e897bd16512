"""The summary of a run, read from its artifacts: rows, metrics against thresholds, the verdict with its reasons."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from fullpass.base import state_file
from fullpass.base.files import read_bytes
from fullpass.base.redact import redact_tree
from fullpass.components.artifact_files import PAGE
from fullpass.components.data_gate.gate_verdict import Verdict as DataVerdict
from fullpass.components.data_gate.gate_verdict import read_comparison
from fullpass.components.evaluation.evaluation_verdict import Verdict, read_verdict, with_suspicion
from fullpass.components.ingest.splitting.label_balance import Imbalance
from fullpass.components.ingest.writing.manifest import Overlap
from fullpass.components.transform.analysis_plan import Analysis, read_analysis
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.running.execution.events import Artifact, RunResult, Status
from fullpass.pipeline.running.served_model import PushedVersion, pushed_version
from fullpass.pipeline.running.split_labels import uneven_labels
from fullpass.pipeline.running.training_summary import TrainingFacts, Trials, read_training, read_trials
from fullpass.trainer.export.run_provenance import TRAINING_FILE

DATA_GATE = "DataGate"
_READ = (Status.OK, Status.CACHED, Status.REUSED)

Outputs = Callable[[str], dict[str, list[Artifact]]]


@dataclass(frozen=True)
class Summary:
    """The facts of a run; a fact is None if the run ended before it was known.

    Attributes:
        rows: number of rows per split.
        spans_without_rows: labels of the spans of the window whose files hold no row; `(the newest)` marks the newest.
        overlaps: for each pair of splits, the rows that are in both.
        uneven: splits whose labels are distributed otherwise than in all rows.
        pushed: the version that the model was pushed as.
        newly_pushed: False if this model was pushed before.
        model_run: the folder of the Trainer's training records.
        data: the findings of the data gate.
        unread: whether not even the metadata could be read, so the outputs of the run are unknown.
    """

    rows: dict[str, int] | None = None
    rows_read: int = 0
    rows_per_second: int = 0
    rows_quarantined: int = 0
    spans_without_rows: tuple[str, ...] = ()
    quarantine: tuple[str, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    uneven: tuple[Imbalance, ...] = ()
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
    training: TrainingFacts | None = None
    trials: Trials | None = None
    data: DataVerdict | None = None
    unread: bool = False

    @property
    def pushed_to(self) -> str | None:
        """The folder of the version that the model was pushed as, in this run or an earlier one."""
        return self.pushed.folder if self.pushed else None


def stopped_by_gate(result: RunResult) -> bool:
    """Returns whether the data gate stopped a run."""
    return any(node.id == DATA_GATE and node.status is Status.FAILED for node in result.nodes)


def unreadable_summary(result: RunResult) -> Summary:
    """Returns the summary of a run whose metadata and artifacts cannot be read."""
    return Summary(unread=any(node.id == "Evaluator" and node.status in _READ for node in result.nodes))


def metadata_summary(result: RunResult, outputs: Outputs) -> Summary:
    """Returns the verdict and the model of a run from the metadata alone, for a run whose files cannot be read."""
    blessing, model = (_artifact(result, outputs, *of) for of in (("Evaluator", "blessing"), ("Trainer", "model")))
    pushed = _artifact(result, outputs, "Pusher", "pushed_model")
    verdict = None
    if blessing is not None:
        blessed = bool(blessing.properties.get("blessed"))
        why = () if blessed else ("the measurements cannot be read",)
        verdict = Verdict(blessed, why, metrics=(), examples=0)
    return Summary(
        verdict=verdict,
        model=model.uri if model else None,
        pushed=pushed_version(str(pushed.properties["pushed_destination"]))
        if pushed and pushed.properties.get("pushed")
        else None,
        newly_pushed=bool(pushed and pushed.properties.get("created") and result.node("Pusher").status is Status.OK),
    )


def _artifacts(result: RunResult, outputs: Outputs, node: str, output: str) -> list[Artifact]:
    known = any(one.id == node and one.status in _READ for one in result.nodes)
    return outputs(node).get(output, []) if known else []


def _artifact(result: RunResult, outputs: Outputs, node: str, output: str) -> Artifact | None:
    return next(iter(_artifacts(result, outputs, node, output)), None)


def summarize(result: RunResult, outputs: Outputs, config: PipelineConfig) -> Summary:
    """Reads the facts from the artifacts of a run.

    Args:
        result: the result of the run.
        outputs: returns the artifacts of a node, by output name.
        config: the config of the pipeline.
    """
    artifacts, artifact = partial(_artifacts, result, outputs), partial(_artifact, result, outputs)
    examples = artifacts("Window", "examples") or artifacts("Ingest", "examples")
    graph = artifact("Transform", "transform_graph")
    evaluation, blessing = artifact("Evaluator", "evaluation"), artifact("Evaluator", "blessing")
    parity, serving = artifact("Parity", "report"), artifact("ServingCheck", "report")
    statistics = artifact("StatisticsGen", "statistics")
    report, spans = artifact("Report", "report"), artifact("SpanComparison", "comparison")
    pages = [f"{report.uri}/{PAGE}"] if report else []
    pages += [f"{spans.uri}/{PAGE}"] if spans and stopped_by_gate(result) else []
    comparison = artifact("SchemaComparison", "comparison")
    model_run, tuner = artifact("Trainer", "model_run"), artifact("Tuner", "tuner_results")
    verdict = None
    if evaluation and blessing:
        blessed = bool(blessing.properties.get("blessed"))
        verdict = read_verdict(evaluation.uri, config.evaluation, blessed=blessed)
        if model_run and (record := read_bytes(f"{model_run.uri}/{TRAINING_FILE}")):
            verdict = with_suspicion(verdict, json.loads(record))
    analysed = graph is not None and result.node("Transform").status is Status.OK
    analysis = graph.properties.get("analysis") if graph and analysed else None
    return replace(
        metadata_summary(result, outputs),
        rows={split: _total(examples, f"rows_{split}") for split in config.data.split_names} if examples else None,
        rows_read=_total(examples, "rows_read"),
        rows_per_second=int(examples[0].properties.get("rows_per_second", 0)) if len(examples) == 1 else 0,
        rows_quarantined=_total(examples, "rows_quarantined"),
        spans_without_rows=_without_rows(examples),
        quarantine=tuple(f"{e.uri}/quarantine.parquet" for e in examples if e.properties.get("rows_quarantined")),
        overlaps=_overlaps(examples, config.data.split_names),
        uneven=uneven_labels(statistics.uri, config.label.name, config.data.split_names) if statistics else (),
        analysis=read_analysis(str(analysis)) if analysis else None,
        schema_differences=int(comparison.properties.get("differences", 0)) if comparison else 0,
        verdict=verdict,
        parity_rows=int(parity.properties["rows"]) if parity else None,
        latency_ms=float(serving.properties["latency_ms"]) if serving else None,
        report=next(iter(pages), None),
        model_run=model_run.uri if model_run else None,
        training=read_training(model_run.uri) if model_run else None,
        trials=read_trials(tuner.uri, config) if tuner else None,
        data=read_comparison(spans.uri) if spans else None,
    )


def _without_rows(examples: Sequence[Artifact]) -> tuple[str, ...]:
    newest = max((int(e.properties.get("span", 0)) for e in examples), default=0)
    return tuple(
        f"{e.properties.get('label')}{' (the newest)' if e.properties.get('span', 0) == newest else ''}"
        for e in examples
        if e.properties.get("rows_read") == 0
    )


def _overlaps(examples: Sequence[Artifact], splits: Sequence[str]) -> tuple[Overlap, ...]:
    pairs = [(first, second) for first in splits for second in splits if first != second]
    return tuple(
        Overlap(first, second, _total(examples, f"overlap_{second}_{first}"), _total(examples, f"rows_{second}"))
        for first, second in pairs
    )


def write_summary(summary: Summary, result: RunResult, path: Path) -> None:
    """Writes the summary for other programs as a state file (fullpass/base/state_file.py), atomically."""
    verdict = summary.verdict
    facts = {
        "run_id": result.run_id,
        "ok": result.ok,
        "seconds": round(result.seconds, 3),
        "rows": summary.rows,
        "rows_read": summary.rows_read,
        "rows_per_second": summary.rows_per_second,
        "rows_quarantined": summary.rows_quarantined,
        "spans_without_rows": list(summary.spans_without_rows),
        "rows_in_two_splits": {f"{o.second} in {o.first}": o.rows for o in summary.overlaps},
        "uneven_labels": [imbalance.words for imbalance in summary.uneven],
        "analysis": asdict(summary.analysis) if summary.analysis else None,
        "blessed": verdict.blessed if verdict else None,
        "reasons": list(verdict.reasons) if verdict else [],
        "notes": list(verdict.notes) if verdict else [],
        "metrics": {m.metric: m.value for m in verdict.metrics} if verdict else {},
        "baseline": {m.metric: m.baseline for m in verdict.metrics if m.baseline is not None} if verdict else {},
        "newest_span": {m.metric: {"value": m.value, "baseline": m.baseline} for m in verdict.newest}
        if verdict
        else {},
        "data_gate": _gate_facts(summary.data) if summary.data else None,
        "training": asdict(summary.training) if summary.training else None,
        "trials": summary.trials.records() if summary.trials else None,
        "model": summary.model,
        "pushed_to": summary.pushed_to,
        "served": summary.pushed.served if summary.pushed else None,
        "report": summary.report,
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


def _gate_facts(data: DataVerdict) -> dict[str, object]:
    return {
        "span": data.span,
        "compared_with": [against for against in (data.previous, data.window) if against],
        "stopped": data.stopped,
        "retrain": data.retrain,
        "findings": [
            {"check": f.check, "subject": f.subject, "policy": f.policy, "text": f.text} for f in data.findings
        ],
    }


def _total(artifacts: Sequence[Artifact], name: str) -> int:
    return sum(int(artifact.properties.get(name, 0)) for artifact in artifacts)
