"""Gathers the facts of a run that has ended from its result and from the artifacts of its nodes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fullpass.components.artifact_files import PAGE
from fullpass.components.data_gate.gate_verdict import GateVerdict
from fullpass.components.evaluation.judge.verdict import Verdict
from fullpass.components.ingest.writing.manifest import COUNTS, QUARANTINE, read_counts, sums
from fullpass.components.mlmd_values import RecordedArtifact
from fullpass.components.push.pushed_version import PushedVersion, pushed_version, pushed_version_of
from fullpass.components.run_artifacts import RunArtifacts
from fullpass.components.statistics.split_labels import SplitLabels, read_split_labels
from fullpass.components.transform.analysis_plan import read_analysis
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.exit_codes import ExitCode, outcome_of
from fullpass.pipeline.printing import plain
from fullpass.pipeline.record.events import RunResult, Status
from fullpass.pipeline.record.facts import RunFacts
from fullpass.trainer.tuning.search_space import LARGER_IS_BETTER, OBJECTIVES, decode_choice

Facts = dict[str, Any]

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
_INSTEAD = (("Window", "examples"), ("Blessing", "evaluation"), ("Blessing", "blessing"))
"""Nodes that not every pipeline has, and what they put in the place of another node's output of that name."""
_OF_TRAINING = (
    *("epochs", "best_epoch", "devices", "examples_per_second", "input_wait", "resumed_at_update", "warm_start"),
    *("ended_by", "reference", "compared", "rows", "model", "blend", "limited", "left_out"),
    *("candidates", "run_fn"),
)
"""The entries of training.json that are facts of the run; the others fill a page."""


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
    by_name |= {name: outputs(node).get(name, ()) for node, name in _INSTEAD if node in ended}
    return RunArtifacts(by_name)


def of_result(result: RunResult) -> Facts:
    """Returns what the runner knows of a run. Its outputs count as unread until its metadata are."""
    ended = datetime.now(UTC)
    return {
        "started": (ended - timedelta(seconds=result.seconds)).isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds"),
        "seconds": round(result.seconds, 3),
        "ok": result.ok,
        "recorded_as": result.recorded_as,
        "unread": any(node.id == "Evaluator" and node.status in _READ for node in result.nodes),
        "nodes": {
            node.id: {
                "status": node.status.value,
                "seconds": round(node.seconds, 3),
                "cpu_seconds": round(node.cpu_seconds, 3),
                "peak_mib": round(node.peak_mib),
                "after": list(node.after),
            }
            for node in result.nodes
        },
    }


def of_metadata(result: RunResult, made: RunArtifacts) -> Facts:
    """Returns the verdict and the model of a run from the metadata alone, for a run whose files cannot be read."""
    pushed, model = made.find("pushed"), made.find("model")
    return {
        "unread": False,
        "blessed": made.blessed,
        "reasons": ["the measurements cannot be read"] if made.blessed is False else [],
        "model": model.uri if model else None,
        "newly_pushed": bool(pushed and pushed.properties.get("created") and result.node("Pusher").status is Status.OK),
        **(of_pushed(pushed_version(made.pushed_to)) if made.pushed_to else {}),
    }


def of_pushed(version: PushedVersion) -> Facts:
    """Returns what becomes of the version that the model of a run is."""
    return {"pushed_to": version.folder, "served": version.served, "not_served": version.not_served}


def of_person(facts: RunFacts, target: Path) -> Facts:
    """Returns the version in a folder of a model that the Evaluator refused, and a person blessed before."""
    refused = facts.blessed is False and facts.model is not None
    pushed = pushed_version_of(facts.model or "", target) if refused else None
    return of_pushed(pushed) if pushed is not None else {}


def of_artifacts(result: RunResult, made: RunArtifacts, config: PipelineConfig) -> Facts:
    """Returns what the artifacts of a run hold, as far as it has made them."""
    examples = made.all("examples")
    facts = _of_examples(examples, config.data.split_names) if examples else {}
    if graph := made.find("transform_graph"):
        analysis = graph.properties.get("analysis") if result.node("Transform").status is Status.OK else None
        facts["analysis"] = asdict(read_analysis(str(analysis))) if analysis else None
    if comparison := made.find("comparison"):
        facts["schema_differences"] = int(comparison.properties.get("differences", 0))
    if parity := made.find("parity"):
        facts["parity_rows"] = int(parity.properties["rows"])
    if serving := made.find("serving"):
        facts["latency_ms"] = float(serving.properties["latency_ms"])
    if (data := made.data_verdict) is not None:
        facts["data_gate"] = _of_gate(data)
    if (verdict := made.verdict) is not None:
        facts |= of_verdict(made.uri("evaluation"), verdict)
    if made.all("statistics"):
        labels = read_split_labels(made.uri("statistics"), config.label, config.data.split_names)
        facts |= _of_labels(labels, facts.get("metrics", {}))
    if made.all("model_run"):
        training = made.training
        facts |= {"model_run": made.uri("model_run"), "training": {name: training.get(name) for name in _OF_TRAINING}}
    if made.all("tuner_results"):
        facts["trials"] = read_trials(made.uri("tuner_results"), config)
    page = "report" if made.all("report") else "spans" if made.all("spans") and _is_stopped(result) else None
    return facts | ({"report": f"{made.uri(page)}/{PAGE}"} if page else {})


def ending(facts: RunFacts, result: RunResult) -> Facts:
    """Returns the outcome of a run, of which all other facts are known."""
    code, reused = _exit_code(facts, result), any(node.status is Status.REUSED for node in result.nodes)
    return {
        "exit_code": int(code),
        "outcome": "interrupted" if result.interrupted else outcome_of(code),
        "message": plain(_message(facts, result)),
        "trained": result.ok and facts.blessed is not None and not reused,
    }


def _is_stopped(result: RunResult) -> bool:
    """Returns whether the data gate stopped a run."""
    return any(node.id == "DataGate" and node.status is Status.FAILED for node in result.nodes)


def _exit_code(facts: RunFacts, result: RunResult) -> ExitCode:
    if _is_stopped(result):
        return ExitCode.GATE_STOP
    if not result.ok or facts.unread:
        return ExitCode.FAILED
    return ExitCode.NOT_BLESSED if facts.blessed is False else ExitCode.DONE


def _message(facts: RunFacts, result: RunResult) -> str:
    if not result.ok:
        failed = next((node for node in result.nodes if node.error), None)
        return f"{failed.id}: {failed.error}" if failed else "interrupted"
    if facts.blessed is False:
        return "; ".join(facts.reasons)
    if facts.unread:
        return "the run has ended, but its outputs cannot be read"
    return f"pushed to {facts.pushed_to}" if facts.newly_pushed else facts.not_served


def _of_examples(examples: Sequence[RecordedArtifact], splits: Sequence[str]) -> Facts:
    spans = [read_counts(one.properties.get(COUNTS)) for one in examples]
    numbers = [int(one.properties.get("span", 0)) for one in examples]
    return {
        "rows": {split: sum(one.written.get(split, 0) for one in spans) for split in splits},
        "rows_read": sum(one.read for one in spans),
        "rows_per_second": round(spans[0].rows_per_second) if len(spans) == 1 else 0,
        "rows_quarantined": sum(one.rows_quarantined for one in spans),
        "quarantine": [f"{e.uri}/{QUARANTINE}" for e, one in zip(examples, spans, strict=True) if one.rows_quarantined],
        "spans_without_rows": [
            f"{artifact.properties.get('label')}{' (the newest)' if number == max(numbers) else ''}"
            for artifact, number, one in zip(examples, numbers, spans, strict=True)
            if not one.read
        ],
        "rows_in_two_splits": sums((f"{o.second} in {o.first}", o.rows) for one in spans for o in one.overlaps),
        "rows_unmatched": sums((join.name, join.unmatched) for one in spans for join in one.joins),
        "histories_cut": sums((history.name, history.cut) for one in spans for history in one.histories),
        "histories_without": sums((history.name, history.without) for one in spans for history in one.histories),
        "rows_left_out": sums(pair for one in spans for pair in one.left_out.items()),
    }


def _of_gate(data: GateVerdict) -> Facts:
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
        "notes": data.notes,
    }


def of_verdict(folder: str, verdict: Verdict) -> Facts:
    """Returns what the Evaluator found. folder: that of its measurements."""
    return {
        "evaluation": folder,
        "reasons": verdict.reasons,
        "notes": verdict.notes,
        "examples": verdict.examples,
        "metrics": {m.metric: m.value for m in verdict.metrics},
        "baseline": {m.metric: m.baseline for m in verdict.metrics if m.baseline is not None},
        "baselines": verdict.baselines,
        "newest_span": {m.metric: {"value": m.value, "baseline": m.baseline} for m in verdict.newest},
    }


def _of_labels(labels: SplitLabels, metrics: Mapping[str, float | None]) -> Facts:
    return {
        "uneven_labels": [imbalance.words for imbalance in labels.uneven],
        "new_labels": [new.words for new in labels.new],
        "label_notes": labels.notes(metrics),
    }


def read_trials(folder: str, config: PipelineConfig) -> list[Facts] | None:
    """Returns the successful trials of a Tuner's `tuner_results`, best first: the score and the values."""
    file = Path(folder) / "tuner_results.json"
    if config.tuning is None or not file.exists():
        return None
    objective = config.tuning.objective or OBJECTIVES[config.label.task][0]
    trials = [
        {
            objective: float(row["score"]),
            "hyperparameters": {path: decode_choice(spec, row[path]) for path, spec in config.tuning.search.items()},
        }
        for row in json.loads(file.read_text())
    ]
    return sorted(trials, key=lambda trial: trial[objective], reverse=objective in LARGER_IS_BETTER)
