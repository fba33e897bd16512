"""What a run ends with: rows, metrics against thresholds, blessed or not and why, where the model is, time per node."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from components.artifacts import Report, SpanComparison
from components.data_gate.gate import read_comparison
from components.data_gate.verdict import Verdict as DataVerdict
from components.evaluation.verdict import Measured, Verdict, read_verdict
from components.ingest.manifest import Overlap
from components.transform.analysis import Analysis, read_analysis
from pipeline.config import PipelineConfig
from pipeline.execution.events import Artifact, RunResult, Status
from pipeline.training_facts import TrainingFacts, Trials, read_training, read_trials, trials_table

DATA_GATE = "DataGate"
_SHOWN = 6

Outputs = Callable[[str], dict[str, list[Artifact]]]


@dataclass(frozen=True)
class Summary:
    """The facts of a run, as far as it came; None where it did not come so far.

    rows: per split. overlaps: rows that stand in two splits, of each pair. pushed_to: folder of the version.
    newly_pushed: False if this model was pushed before. data: what the data gate found.
    """

    rows: dict[str, int] | None
    rows_read: int
    rows_per_second: int
    rows_quarantined: int
    quarantine: tuple[str, ...]
    overlaps: tuple[Overlap, ...]
    analysis: Analysis | None
    schema_differences: int
    verdict: Verdict | None
    model: str | None
    pushed_to: str | None
    newly_pushed: bool
    parity_rows: int | None
    latency_ms: float | None
    report: str | None
    training: TrainingFacts | None = None
    trials: Trials | None = None
    data: DataVerdict | None = None


def stopped_by_gate(result: RunResult) -> bool:
    """Whether the data gate ended a run."""
    return any(node.id == DATA_GATE and node.status is Status.FAILED for node in result.nodes)


def summarize(result: RunResult, outputs: Outputs, config: PipelineConfig) -> Summary:
    """Reads the facts from the artifacts of a run.

    Args:
        result: how the run ended.
        outputs: artifacts of a node, by output name.
        config: what was run.
    """
    known = {node.id for node in result.nodes if node.status in (Status.OK, Status.CACHED, Status.REUSED)}

    def artifacts(node: str, output: str) -> list[Artifact]:
        return outputs(node).get(output, []) if node in known else []

    def artifact(node: str, output: str) -> Artifact | None:
        return next(iter(artifacts(node, output)), None)

    examples = artifacts("Window", "examples") or artifacts("Ingest", "examples")
    graph = artifact("Transform", "transform_graph")
    evaluation, blessing = artifact("Evaluator", "evaluation"), artifact("Evaluator", "blessing")
    pushed, model = artifact("Pusher", "pushed_model"), artifact("Trainer", "model")
    parity, serving = artifact("Parity", "report"), artifact("ServingCheck", "report")
    report, spans = artifact("Report", "report"), artifact("SpanComparison", "comparison")
    pages = [f"{report.uri}/{Report.FILE}"] if report else []
    pages += [f"{spans.uri}/{SpanComparison.PAGE}"] if spans and stopped_by_gate(result) else []
    comparison = artifact("SchemaComparison", "comparison")
    model_run, tuner = artifact("Trainer", "model_run"), artifact("Tuner", "tuner_results")
    verdict = None
    if evaluation and blessing:
        blessed = bool(blessing.properties.get("blessed"))
        verdict = read_verdict(evaluation.uri, config.evaluation, blessed=blessed)
    analysed = graph is not None and result.node("Transform").status is Status.OK
    analysis = graph.properties.get("analysis") if graph and analysed else None
    return Summary(
        rows={split: _total(examples, f"rows_{split}") for split in config.data.split_names} if examples else None,
        rows_read=_total(examples, "rows_read"),
        rows_per_second=int(examples[0].properties.get("rows_per_second", 0)) if len(examples) == 1 else 0,
        rows_quarantined=_total(examples, "rows_quarantined"),
        quarantine=tuple(f"{e.uri}/quarantine.parquet" for e in examples if e.properties.get("rows_quarantined")),
        overlaps=_overlaps(examples, config.data.split_names),
        analysis=read_analysis(str(analysis)) if analysis else None,
        schema_differences=int(comparison.properties.get("differences", 0)) if comparison else 0,
        verdict=verdict,
        model=model.uri if model else None,
        pushed_to=str(pushed.properties["pushed_destination"]) if pushed and pushed.properties.get("pushed") else None,
        newly_pushed=bool(pushed and pushed.properties.get("created") and result.node("Pusher").status is Status.OK),
        parity_rows=int(parity.properties["rows"]) if parity else None,
        latency_ms=float(serving.properties["latency_ms"]) if serving else None,
        report=next(iter(pages), None),
        training=read_training(model_run.uri) if model_run else None,
        trials=read_trials(tuner.uri, config) if tuner else None,
        data=read_comparison(spans.uri) if spans else None,
    )


def _overlaps(examples: Sequence[Artifact], splits: Sequence[str]) -> tuple[Overlap, ...]:
    pairs = [(first, second) for first in splits for second in splits if first != second]
    return tuple(
        Overlap(first, second, _total(examples, f"overlap_{second}_{first}"), _total(examples, f"rows_{second}"))
        for first, second in pairs
    )


def render(summary: Summary, result: RunResult) -> RenderableType:
    """Returns the summary as it is printed."""
    parts: list[RenderableType] = [_facts(summary)]
    if summary.trials is not None:
        parts.append(trials_table(summary.trials))
    if summary.verdict is not None:
        parts += [_metrics(summary.verdict), *(Text(f"  {note}") for note in summary.verdict.notes)]
    parts += [_times(result), _ending(summary, result)]
    return Group(*parts)


def print_summary(summary: Summary, result: RunResult, console: Console) -> None:
    """Prints the summary."""
    console.print(render(summary, result))


def write_summary(summary: Summary, result: RunResult, path: Path) -> None:
    """Writes the summary as JSON, for other programs; whole or not at all."""
    verdict = summary.verdict
    facts = {
        "run_id": result.run_id,
        "ok": result.ok,
        "seconds": round(result.seconds, 3),
        "rows": summary.rows,
        "rows_read": summary.rows_read,
        "rows_per_second": summary.rows_per_second,
        "rows_quarantined": summary.rows_quarantined,
        "rows_in_two_splits": {f"{o.second} in {o.first}": o.rows for o in summary.overlaps},
        "analysis": asdict(summary.analysis) if summary.analysis else None,
        "blessed": verdict.blessed if verdict else None,
        "reasons": list(verdict.reasons) if verdict else [],
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
        "report": summary.report,
        "nodes": {n.id: {"status": n.status.value, "seconds": round(n.seconds, 3)} for n in result.nodes},
    }
    pending = path.with_suffix(".pending")
    pending.write_text(json.dumps(facts, indent=1) + "\n")
    pending.replace(path)


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


def _facts(summary: Summary) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    if summary.rows is not None:
        splits = ", ".join(f"{split} {rows:,}" for split, rows in summary.rows.items())
        speed = f" ({summary.rows_per_second:,}/s)" if summary.rows_per_second else ""
        quarantined = f"quarantined {summary.rows_quarantined:,}"
        table.add_row("rows", f"{summary.rows_read:,} read{speed}: {splits}, {quarantined}")
    for path in summary.quarantine:
        table.add_row("quarantine", path)
    for overlap in summary.overlaps:
        if overlap.rows:
            table.add_row("overlap", overlap.words)
    for line in _gate(summary.data) if summary.data else ():
        table.add_row("data gate", Text(line))
    for line in _analysis(summary.analysis) if summary.analysis else ():
        table.add_row("analysis", line)
    if summary.schema_differences:
        table.add_row("schema", f"{summary.schema_differences} differences from the data (SchemaComparison)")
    if summary.training is not None:
        table.add_row("training", summary.training.words)
        if summary.training.beginning:
            table.add_row("began", summary.training.beginning)
    if summary.parity_rows is not None:
        table.add_row("parity", f"{summary.parity_rows:,} rows equal in training and serving, 0 mismatches")
    if summary.latency_ms is not None:
        table.add_row(
            "serving", f"answered in a fresh process with TensorFlow alone, {summary.latency_ms:.2f} ms a row"
        )
    if summary.report is not None:
        table.add_row("report", summary.report)
    return table


def _analysis(analysis: Analysis) -> list[str]:
    """Returns which spans were analysed and why, and which were not."""
    counted = {True: "1 span", False: f"{len(analysis.hit)} spans"}[len(analysis.hit) == 1]
    lines = [f"{counted} taken from the cache"] if analysis.hit else []
    by_reason: dict[str, list[str]] = {}
    for label, why in analysis.missed.items():
        by_reason.setdefault(why, []).append(label)
    for why, labels in by_reason.items():
        shown = labels if len(labels) <= _SHOWN else [*labels[:2], "...", labels[-1]]
        lines.append(f"{len(labels)} analysed, {why}: {', '.join(shown)}")
    return lines


def _gate(data: DataVerdict) -> list[str]:
    """Returns what moved, the most serious first, or that nothing did."""
    against = " and ".join(filter(None, (data.previous, data.window)))
    lines = [f"{finding.policy}: {finding.text}" for finding in data.findings[:_SHOWN]]
    if len(data.findings) > _SHOWN:
        lines.append(f"and {len(data.findings) - _SHOWN} more, in the report")
    if not data.findings and against:
        lines.append(f"{data.span} is as {against}")
    return [*lines, *data.notes]


def _total(artifacts: Sequence[Artifact], name: str) -> int:
    return sum(int(artifact.properties.get(name, 0)) for artifact in artifacts)


def _metrics(verdict: Verdict) -> Table:
    newest = f", {verdict.newest_examples:,} of the newest span" if verdict.newest else ""
    table = Table(title=f"Evaluation, {verdict.examples:,} examples{newest}", box=box.SIMPLE, title_justify="left")
    for heading in ("metric", "value", "last blessed", "required", ""):
        table.add_column(heading, justify="right" if heading in ("value", "last blessed") else "left")
    of_newest = [replace(m, metric=f"{m.metric}, newest span") for m in verdict.newest]
    for m in (*verdict.metrics, *of_newest, *_on_slices(verdict)):
        baseline = "" if m.baseline is None else f"{m.baseline:.4f}"
        mark = "" if not m.required else "held" if m.held else "not held"
        table.add_row(m.metric, f"{m.value:.4f}", baseline, m.required, Text(mark, style="green" if m.held else "red"))
    return table


def _on_slices(verdict: Verdict) -> Iterator[Measured]:
    """Yields the slices on which a metric does not hold, or else the worst, named for the table."""
    for metric, newest, judged in verdict.judged_on_slices():
        missed = [(f"{metric}, {one.name}", m) for one, m in judged if not m.held]
        counted = "1 slice" if len(judged) == 1 else f"worst of {len(judged)} slices"
        for name, m in missed[:_SHOWN] or [(f"{metric}, {counted}", judged[0][1])]:
            yield replace(m, metric=f"{name}, newest span" if newest else name)


def _times(result: RunResult) -> Table:
    table = Table(title="Time per node", box=box.SIMPLE, title_justify="left")
    table.add_column("node")
    table.add_column("outcome")
    table.add_column("seconds", justify="right")
    for node in result.nodes:
        table.add_row(node.id, node.status.value, f"{node.seconds:.1f}" if node.seconds else "")
    table.add_row("all, side by side", "", f"{result.seconds:.1f}", style="bold")
    return table


def _ending(summary: Summary, result: RunResult) -> RenderableType:
    if stopped_by_gate(result):
        return Text("Stopped by the data gate. Nothing was trained; what is served stays.", style="red")
    if not result.ok:
        return Text("The run did not finish; the next one goes on from here.", style="red")
    verdict = summary.verdict
    if verdict is not None and not verdict.blessed:
        lines = ["Not blessed, not pushed:", *(f"  {reason}" for reason in verdict.reasons)]
        return Text("\n".join([*lines, f"The model is kept in {summary.model}"]), style="yellow")
    if summary.pushed_to is not None:
        how = "Blessed and pushed to" if summary.newly_pushed else "Nothing new; blessed before, and served from"
        return Text(f"{how} {summary.pushed_to}", style="green")
    return Text("Done.")
