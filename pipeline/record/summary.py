"""Prints the summary of a run: rows, metrics against thresholds, the verdict with its reasons, time per node."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fullpass.base.errors import listed
from fullpass.base.metric_text import metric_text
from fullpass.components.evaluation.judge.verdict import Measured, Verdict
from fullpass.components.ingest.writing.manifest import Overlap, history_words, left_out_words, unmatched_words
from fullpass.pipeline.printing import short_value, simple_table
from fullpass.pipeline.record.facts import RunFacts
from fullpass.trainer.insight.words import ended_words, reference_words, tried_words

_SHOWN = 6
"""Findings, slices and spans that are listed of each kind."""
_MOST_TRIALS = 10
_MOST_ANEW = 3
"""Weights that are named of those that a warm start could not reuse."""


def print_summary(facts: RunFacts, verdict: Verdict | None, console: Console) -> None:
    """Prints the summary of a run, with the metrics of its verdict."""
    console.print(_tables(facts, verdict))
    # Printed without line breaks, so paths and commands can be copied.
    console.print(_verdict_line(facts), soft_wrap=True)


def _tables(facts: RunFacts, verdict: Verdict | None) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    for name, said in _lines(facts):
        if said:
            grid.add_row(name, Text(said))
    parts: list[RenderableType] = [grid]
    if facts.trials is not None:
        parts.append(trials_table(facts.trials))
    if verdict is not None:
        parts += [_metrics(verdict), *(Text(f"  {note}") for note in verdict.notes)]
    return Group(*parts)


def _lines(facts: RunFacts) -> Iterator[tuple[str, str]]:
    """Yields the facts by name; an empty one is not shown."""
    read = facts.rows_read
    if facts.rows is not None:
        splits = ", ".join(f"{split} {rows:,}" for split, rows in facts.rows.items())
        speed = f" ({facts.rows_per_second:,}/s)" if facts.rows_per_second else ""
        yield "rows", f"{read:,} read{speed}: {splits}, quarantined {facts.rows_quarantined:,}"
    if facts.spans_without_rows:
        yield "gap", f"no rows in {listed(facts.spans_without_rows)}: only header lines, or nothing"
    yield from (("quarantine", path) for path in facts.quarantine)
    yield from (("overlap", line) for line in _overlaps(facts))
    yield from (("join", unmatched_words(name, rows, read)) for name, rows in facts.rows_unmatched.items())
    for name, cut in facts.histories_cut.items():
        yield "history", history_words(name, cut, facts.histories_without[name], read)
    yield from (("left out", line) for line in left_out_words(facts.rows_left_out))
    yield from (("labels", words) for words in facts.label_notes)
    rows = (facts.rows or {}).get("eval", 0)
    if 0 < facts.examples < rows:
        yield "labels", f"{rows - facts.examples:,} of {rows:,} eval rows are not measured: no label, or weight 0"
    yield from (("data gate", line) for line in (_gate(facts.data_gate) if facts.data_gate else ()))
    yield from (("analysis", line) for line in (_analysis(**facts.analysis) if facts.analysis else ()))
    if facts.schema_differences:
        yield "schema", f"{facts.schema_differences} differences from the data (SchemaComparison)"
    training = facts.training or {}
    if training:
        yield "training", training_words(training)
        yield "models", tried_words(training) if training["compared"] else ""
        yield "simple reference", reference_words(training["reference"])
    yield from (("baseline", line) for line in facts.baselines)
    yield "began", _beginning(training.get("warm_start"))
    if facts.parity_rows is not None:
        yield "parity", f"{facts.parity_rows:,} rows equal in training and serving, 0 mismatches"
    if facts.latency_ms is not None:
        yield "serving", f"answered in a fresh process with TensorFlow alone, {facts.latency_ms:.2f} ms a row"
    yield "report", facts.report or ""
    yield "time", f"{facts.seconds:.1f} s, nodes side by side" if facts.seconds is not None else ""


def _overlaps(facts: RunFacts) -> Iterator[str]:
    splits = facts.rows or {}
    for first in splits:
        for second, of in splits.items():
            rows = facts.rows_in_two_splits.get(f"{second} in {first}", 0)
            if rows:
                yield Overlap(first, second, rows, of).words


def _analysis(hit: Sequence[str], missed: Mapping[str, str]) -> list[str]:
    counted = {True: "1 span", False: f"{len(hit)} spans"}[len(hit) == 1]
    lines = [f"{counted} taken from the cache"] if hit else []
    by_reason: dict[str, list[str]] = {}
    for label, why in missed.items():
        by_reason.setdefault(why, []).append(label)
    for why, labels in by_reason.items():
        shown = labels if len(labels) <= _SHOWN else [*labels[:2], "...", labels[-1]]
        lines.append(f"{len(labels)} analysed, {why}: {', '.join(shown)}")
    return lines


def _gate(data: Mapping[str, Any]) -> list[str]:
    """Returns lines about the data gate's findings, most serious first, or that there are none."""
    findings = data["findings"]
    lines = [f"{finding['policy']}: {finding['text']}" for finding in findings[:_SHOWN]]
    if len(findings) > _SHOWN:
        lines.append(f"and {len(findings) - _SHOWN} more, in the report")
    if not findings and data["compared_with"]:
        lines.append(f"{data['span']}: within the limits, compared with {' and '.join(data['compared_with'])}")
    return [*lines, *data["notes"]]


def training_words(training: Mapping[str, Any]) -> str:
    """Returns the course of a training as one line."""
    t = training
    if t.get("run_fn"):
        return f"by {t['run_fn']}"
    resumed = f"; resumed after update {t['resumed_at_update']:,} of an earlier run" if t["resumed_at_update"] else ""
    ended = ended_words(t)
    return (
        f"{t['epochs']} epochs, the best {t['best_epoch']}{f' ({ended})' if ended else ''}, on {t['devices']}, "
        f"{t['examples_per_second']:,} examples a second, {t['input_wait']:.0%} of the time waiting for input{resumed}"
    )


def _beginning(warm_start: Mapping[str, Any] | None) -> str:
    """Returns the source of the initial weights, as one line; "" if no warm start was requested."""
    if warm_start is None or warm_start["asked"] == "none":
        return ""
    if warm_start["from"] is None:
        return "from scratch: no blessed model describes its weights"
    anew = [weight for weight in warm_start["weights"] if weight["outcome"] == "anew"]
    shown = "; ".join(f"{weight['weight']} ({weight['why']})" for weight in anew[:_MOST_ANEW])
    more = f" and {len(anew) - _MOST_ANEW} more, see training.json" if len(anew) > _MOST_ANEW else ""
    counts = "{taken} weights reused, {partly} in part, {anew} initialized".format_map(warm_start)
    return f"{counts}{f': {shown}{more}' if anew else ''}; from {warm_start['from']}"


def trials_table(trials: Sequence[Mapping[str, Any]]) -> Table:
    """Returns the best trials as a table."""
    shown = trials[:_MOST_TRIALS]
    title = f"Trials, the best {len(shown)} of {len(trials)}; the first was trained"
    pairs = [tuple(trial.values()) for trial in shown]
    headings = (f"eval {next(iter(shown[0]))}", *pairs[0][1]) if shown else ()
    rows = [(metric_text(score), *map(short_value, values.values())) for score, values in pairs]
    return simple_table(headings, rows, title=title, right=headings)


def _metrics(verdict: Verdict) -> Table:
    newest = f", {verdict.newest_examples:,} of the newest span" if verdict.newest else ""
    title, numbers = f"Evaluation, {verdict.examples:,} examples{newest}", ("value", "last blessed")
    table = simple_table(("metric", *numbers, "", "required", ""), title=title, right=numbers)
    for m in (*verdict.all_metrics, *_on_slices(verdict)):
        baseline = "" if m.baseline is None else metric_text(m.baseline)
        mark = "" if not m.required else "met" if m.passed else "not met"
        value = metric_text(m.value, m.half_width)
        table.add_row(m.metric, value, baseline, m.change, m.required, Text(mark, style="green" if m.passed else "red"))
    return table


def _on_slices(verdict: Verdict) -> Iterator[Measured]:
    """Yields the slices on which a metric misses its threshold, or else the worst slice, named for the table."""
    for metric, newest, judged in verdict.judged_on_slices():
        missed = [(f"{metric}, {one.name}", m) for one, m in judged if not m.passed]
        counted = "1 slice" if len(judged) == 1 else f"worst of {len(judged)} slices"
        for name, m in missed[:_SHOWN] or [(f"{metric}, {counted}", judged[0][1])]:
            yield replace(m, metric=f"{name}, newest span" if newest else name)


def _verdict_line(facts: RunFacts) -> Text:
    if facts.outcome == "gate_stop":
        return Text("Stopped by the data gate. Nothing was trained; the served model stays.", style="red")
    if not facts.ok:
        return Text("The run did not finish; the next run continues from here.", style="red")
    pushed, not_served = facts.pushed_to, facts.not_served
    if facts.blessed is False:
        how = "Not blessed now, but by an earlier verdict or a person" if pushed else "Not blessed, not pushed"
        lines = [f"{how}:", *(f"  {reason}" for reason in facts.reasons), f"The model is kept in {facts.model}"]
        lines += [f"It was pushed: {not_served or f'it is served from {pushed}'}"] if pushed else []
        return Text("\n".join(lines), style="yellow")
    if facts.unread:
        return Text("The run has ended, but its outputs cannot be read; see start.log in its logs.", style="red")
    if pushed is None:
        return Text("Done.")
    if not_served:
        how = "Blessed, and pushed now to" if facts.newly_pushed else "Nothing new; blessed before, and pushed to"
        return Text(f"{how} {pushed}, but {not_served}", style="yellow")
    how = "Blessed and pushed to" if facts.newly_pushed else "Nothing new; blessed before, and served from"
    return Text(f"{how} {pushed}", style="green")
