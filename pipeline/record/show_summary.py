"""Prints the summary of a run: rows, metrics against thresholds, the verdict with its reasons, time per node."""

from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fullpass.base.errors import listed
from fullpass.base.metric_text import metric_text
from fullpass.components.data_gate.gate_verdict import GateVerdict
from fullpass.components.evaluation.judge.verdict import Measured, Verdict
from fullpass.components.ingest.writing.manifest import history_words, left_out_words, unmatched_words
from fullpass.components.transform.analysis_plan import Analysis
from fullpass.pipeline.printing import simple_table
from fullpass.pipeline.record.events import RunResult
from fullpass.pipeline.record.run_summary import RunSummary, stopped_by_gate
from fullpass.pipeline.record.training_summary import trials_table

_SHOWN = 6


def print_summary(summary: RunSummary, result: RunResult, console: Console) -> None:
    """Prints the summary."""
    console.print(_tables(summary, result))
    # Printed without line breaks, so paths and commands can be copied.
    console.print(_verdict_line(summary, result), soft_wrap=True)


def _tables(summary: RunSummary, result: RunResult) -> RenderableType:
    facts = Table.grid(padding=(0, 2))
    for name, said in _facts(summary):
        if said:
            facts.add_row(name, Text(said))
    parts: list[RenderableType] = [facts]
    if summary.trials is not None:
        parts.append(trials_table(summary.trials))
    if summary.verdict is not None:
        parts += [_metrics(summary.verdict), *(Text(f"  {note}") for note in summary.verdict.notes)]
    return Group(*parts, _times(result))


def _facts(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """Yields the facts by name; an empty one is not shown."""
    if summary.rows is not None:
        splits = ", ".join(f"{split} {rows:,}" for split, rows in summary.rows.items())
        speed = f" ({summary.rows_per_second:,}/s)" if summary.rows_per_second else ""
        quarantined = f"quarantined {summary.rows_quarantined:,}"
        yield "rows", f"{summary.rows_read:,} read{speed}: {splits}, {quarantined}"
    if summary.spans_without_rows:
        yield "gap", f"no rows in {listed(summary.spans_without_rows)}: only header lines, or nothing"
    read = summary.rows_read
    yield from (("quarantine", path) for path in summary.quarantine)
    yield from (("overlap", overlap.words) for overlap in summary.overlaps if overlap.rows)
    yield from (("join", unmatched_words(name, rows, read)) for name, rows in summary.unmatched.items())
    yield from (("history", history_words(name, *rows, read)) for name, rows in summary.histories.items())
    yield from (("left out", line) for line in left_out_words(summary.left_out))
    metrics = {m.metric: m.value for m in summary.verdict.metrics} if summary.verdict else {}
    yield from (("labels", words) for words in (summary.labels.notes(metrics) if summary.labels else ()))
    rows, used = (summary.rows or {}).get("eval", 0), summary.verdict.examples if summary.verdict else 0
    if 0 < used < rows:
        yield "labels", f"{rows - used:,} of {rows:,} eval rows are not measured: no label, or weight 0"
    yield from (("data gate", line) for line in (_gate(summary.data) if summary.data else ()))
    yield from (("analysis", line) for line in (_analysis(summary.analysis) if summary.analysis else ()))
    if summary.schema_differences:
        yield "schema", f"{summary.schema_differences} differences from the data (SchemaComparison)"
    training = summary.training
    if training is not None:
        yield "training", training.words
        yield "models", training.models
        yield "simple reference", training.simple_reference
    yield from (("baseline", line) for line in (summary.verdict.baselines if summary.verdict else ()))
    if training is not None:
        yield "began", training.beginning
    if summary.parity_rows is not None:
        yield "parity", f"{summary.parity_rows:,} rows equal in training and serving, 0 mismatches"
    if summary.latency_ms is not None:
        yield "serving", f"answered in a fresh process with TensorFlow alone, {summary.latency_ms:.2f} ms a row"
    yield "report", summary.report or ""


def _analysis(analysis: Analysis) -> list[str]:
    counted = {True: "1 span", False: f"{len(analysis.hit)} spans"}[len(analysis.hit) == 1]
    lines = [f"{counted} taken from the cache"] if analysis.hit else []
    by_reason: dict[str, list[str]] = {}
    for label, why in analysis.missed.items():
        by_reason.setdefault(why, []).append(label)
    for why, labels in by_reason.items():
        shown = labels if len(labels) <= _SHOWN else [*labels[:2], "...", labels[-1]]
        lines.append(f"{len(labels)} analysed, {why}: {', '.join(shown)}")
    return lines


def _gate(data: GateVerdict) -> list[str]:
    """Returns lines about the data gate's findings, most serious first, or that there are none."""
    against = " and ".join(filter(None, (data.previous, data.window)))
    lines = [f"{finding.policy}: {finding.text}" for finding in data.findings[:_SHOWN]]
    if len(data.findings) > _SHOWN:
        lines.append(f"and {len(data.findings) - _SHOWN} more, in the report")
    if not data.findings and against:
        lines.append(f"{data.span}: within the limits, compared with {against}")
    return [*lines, *data.notes]


def _metrics(verdict: Verdict) -> Table:
    newest = f", {verdict.newest_examples:,} of the newest span" if verdict.newest else ""
    title, numbers = f"Evaluation, {verdict.examples:,} examples{newest}", ("value", "last blessed")
    table = simple_table(("metric", *numbers, "required", ""), title=title, right=numbers)
    for m in (*verdict.all_metrics, *_on_slices(verdict)):
        baseline = "" if m.baseline is None else metric_text(m.baseline)
        mark = "" if not m.required else "met" if m.passed else "not met"
        value = metric_text(m.value, m.half_width)
        table.add_row(m.metric, value, baseline, m.required, Text(mark, style="green" if m.passed else "red"))
    return table


def _on_slices(verdict: Verdict) -> Iterator[Measured]:
    """Yields the slices on which a metric misses its threshold, or else the worst slice, named for the table."""
    for metric, newest, judged in verdict.judged_on_slices():
        missed = [(f"{metric}, {one.name}", m) for one, m in judged if not m.passed]
        counted = "1 slice" if len(judged) == 1 else f"worst of {len(judged)} slices"
        for name, m in missed[:_SHOWN] or [(f"{metric}, {counted}", judged[0][1])]:
            yield replace(m, metric=f"{name}, newest span" if newest else name)


def _times(result: RunResult) -> Table:
    rows = [(node.id, node.status.value, f"{node.seconds:.1f}" if node.seconds else "") for node in result.nodes]
    table = simple_table(("node", "outcome", "seconds"), rows, title="Time per node", right=("seconds",))
    table.add_row("all, side by side", "", f"{result.seconds:.1f}", style="bold")
    return table


def _verdict_line(summary: RunSummary, result: RunResult) -> RenderableType:
    if stopped_by_gate(result):
        return Text("Stopped by the data gate. Nothing was trained; the served model stays.", style="red")
    if not result.ok:
        return Text("The run did not finish; the next run continues from here.", style="red")
    verdict = summary.verdict
    if verdict is not None and not verdict.blessed:
        by_person = summary.pushed is not None
        how = "Not blessed by the Evaluator, but by a person before" if by_person else "Not blessed, not pushed"
        lines = [f"{how}:", *(f"  {reason}" for reason in verdict.reasons), f"The model is kept in {summary.model}"]
        if summary.pushed is not None:
            lines.append(f"It was pushed: {summary.pushed.not_served or f'it is served from {summary.pushed_to}'}")
        return Text("\n".join(lines), style="yellow")
    if summary.unread:
        return Text("The run has ended, but its outputs cannot be read; see start.log in its logs.", style="red")
    if summary.pushed is not None:
        how = "Blessed and pushed to" if summary.newly_pushed else "Nothing new; blessed before, and served from"
        if summary.pushed.not_served:
            how = "Blessed, and pushed now to" if summary.newly_pushed else "Nothing new; blessed before, and pushed to"
            return Text(f"{how} {summary.pushed_to}, but {summary.pushed.not_served}", style="yellow")
        return Text(f"{how} {summary.pushed_to}", style="green")
    return Text("Done.")
