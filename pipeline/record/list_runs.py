"""Lists the runs of a root: when, what changed since the run before, verdict and metrics. No TensorFlow, no metadata.

The history holds every run that has ended, with its metrics; the folder of its logs has the YAML, until `fullpass gc`
removes it. Of a run that trained no model, gc removes the row as well; the next one is compared with the one before it
that is left.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from rich.console import RenderableType

from fullpass.base import state_file
from fullpass.base.files import read_bytes
from fullpass.base.metric_text import metric_text
from fullpass.components.ingest.spans.span_pattern import Unit, label_of
from fullpass.components.pages import notebook_html as html
from fullpass.components.push.pushed_version import State, state_now
from fullpass.pipeline.printing import shortened, simple_table
from fullpass.pipeline.record.config_diff import Settings, differences
from fullpass.pipeline.record.history import RunHistory, RunRecord
from fullpass.pipeline.record.provenance import RUN_FACTS_FILE
from fullpass.pipeline.root.layout import RootLayout

_STYLES = {"success": "green", "not_blessed": "yellow", "failure": "red", "gate_stop": "red"}
_DAMAGED_SUMMARY = "Remove it: the run is then listed without its metrics."
_SHOWN_METRICS = 3
_LONGEST_MESSAGE = 200
_WIDE = {"what changed", "message"}
_NOT_SERVED: dict[State, str] = {"kept": "a newer one is", "put aside": "put aside", "gone": "removed"}
UNFINISHED = "unfinished"
"""The outcome of a run that recorded no end: it is running, or it was killed."""


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A run of a root.

    Attributes:
        started: Local time with offset, ISO 8601; None for an unfinished run.
        message: Why it was refused or failed, or where its model was pushed to.
        changes: What changed since the run before: settings of the YAML, data and code; None for the first run.
        spans: The oldest and the newest span of its window, as labels; None for a source without spans.
        rows: Number of rows read; None if Ingest did not end.
        blessed: None if no model was evaluated.
        pushed_to: Folder of the version that its model was pushed as, in this run or an earlier one.
        model_now: What that version is now: `served`, `kept` behind a newer one, `put aside` by a rollback, or `gone`.
        config_hash: Digest of all settings; None if the logs are gone.
        occasion: Key of the schedule's occasion; empty for a run by hand.
        report: Path of its report, of a data gate's stop too; None if there is none.
    """

    run_id: str
    started: str | None = None
    seconds: int | None = None
    outcome: str = UNFINISHED
    message: str = "it runs, or was killed"
    changes: tuple[str, ...] | None
    spans: tuple[str, str] | None
    rows: int | None
    blessed: bool | None
    metrics: dict[str, float]
    pushed_to: str | None = None
    model_now: State | None = None
    config_hash: str | None
    occasion: str = ""
    report: str | None


class Runs(list[ListedRun]):
    """Runs, newest first; a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        return html.block("Runs" if self else "No run has been made", html.table(*run_cells(self, most=None)))


@dataclass(frozen=True)
class Recorded:
    """What a run left: its row in the history, the facts in its logs (YAML, code), and its summary, or what stays."""

    run_id: str
    record: RunRecord | None
    facts: dict[str, Any]
    summary: dict[str, Any]

    @property
    def yaml(self) -> str | None:
        return (self.facts.get("config") or {}).get("yaml")

    @property
    def config_hash(self) -> str | None:
        return (self.facts.get("config") or {}).get("hash")


def read_runs(root: Path, most: int) -> Runs:
    """Returns the newest runs of a root, newest first.

    Args:
        most: Largest number of runs; only their files are read, so a root of thousands of runs is listed as fast.

    Raises:
        DamagedState: The summary of a run is damaged.
    """
    found = recorded_runs(root, most + 1)
    listed = [_listed(one, before) for one, before in pairwise([*found, None]) if one is not None]
    return Runs(listed[:most])


def recorded_runs(root: Path, most: int) -> list[Recorded]:
    """Returns what the newest runs of a root left, newest first."""
    layout = RootLayout(root)
    records = {record.run_id: record for record in RunHistory(root).newest(most)}
    oldest = min(records, default="") if len(records) == most else ""
    logged = {file.name for file in layout.logs.iterdir()} if layout.logs.is_dir() else set()
    unrecorded = (name for name in logged - records.keys() if name > oldest)
    started = {name for name in unrecorded if (layout.run_logs(name) / RUN_FACTS_FILE).is_file()}
    names = sorted({*records, *started}, reverse=True)[:most]
    return [_recorded(layout, name, records.get(name)) for name in names]


def _recorded(layout: RootLayout, run_id: str, record: RunRecord | None) -> Recorded:
    facts = read_bytes(str(layout.run_logs(run_id) / RUN_FACTS_FILE))
    summary = layout.run_summary(run_id)
    kept = json.loads(record.measured) if record and record.measured else {}
    recorded = state_file.read(summary, _DAMAGED_SUMMARY) if summary.is_file() else kept
    return Recorded(run_id, record, json.loads(facts) if facts else {}, recorded)


def _listed(one: Recorded, before: Recorded | None) -> ListedRun:
    record, ended = one.record, dict[str, Any]()
    if record is not None:
        begin, end = (datetime.fromisoformat(at).replace(tzinfo=UTC) for at in (record.started, record.ended))
        ended = {
            "started": begin.astimezone().isoformat(timespec="seconds"),
            "seconds": round((end - begin).total_seconds()),
        }
        ended |= {name: getattr(record, name) for name in ("outcome", "message", "pushed_to", "occasion")}
    return ListedRun(
        run_id=one.run_id,
        **ended,
        model_now=state_now(record.pushed_to) if record and record.pushed_to else None,
        changes=tuple(_changes(before, one)) if before else None,
        spans=_spans(record) if record else None,
        rows=one.summary.get("rows_read") or None,
        blessed=one.summary.get("blessed"),
        metrics={name: value for name, value in one.summary.get("metrics", {}).items() if value is not None},
        config_hash=one.config_hash,
        report=one.summary.get("report"),
    )


def _spans(record: RunRecord) -> tuple[str, str] | None:
    if record.unit is None or record.first is None or record.last is None:
        return None
    unit = cast(Unit, record.unit)
    return label_of(unit, record.first), label_of(unit, record.last)


def _changes(before: Recorded, now: Recorded) -> list[str]:
    """Returns what changed from one run to the next, the YAML first."""
    changes = []
    if before.yaml is None or now.yaml is None:
        if before.record and now.record and before.record.config != now.record.config:
            changes.append("the YAML (the logs with its text are gone)")
    elif before.config_hash != now.config_hash:
        changes += map(str, differences(Settings.read(before.yaml), Settings.read(now.yaml)))
    old, new = before.record, now.record
    if old and new and old.data != new.data:
        changes.append(f"data: {_data_change(old, new, before.summary.get('rows_read'), now.summary.get('rows_read'))}")
    codes = [one.facts.get("code") or {} for one in (before, now)]
    for name, words in (("fullpass", "Fullpass"), ("line", "the line of TFX"), ("user", "your functions")):
        values = [code.get(name) for code in codes]
        if values[0] != values[1] and all(codes):
            changes.append(f"code: {words}" + (f" {values[0]} -> {values[1]}" if name != "user" else ""))
    return changes


def _data_change(old: RunRecord, new: RunRecord, rows_before: int | None, rows: int | None) -> str:
    read = f", {rows_before:,} -> {rows:,} rows" if rows_before and rows and rows_before != rows else ""
    windows = [" to ".join(_spans(one) or ()) for one in (old, new)]
    return (f"{windows[0]} -> {windows[1]}" if windows[0] != windows[1] else "other files") + read


def table(found: Runs, root: Path) -> RenderableType:
    """Returns the runs as a table for people."""
    if not found:
        return f"No run has been made in {root}."
    headings, rows = run_cells(found, most=_SHOWN_METRICS)
    shown = simple_table(headings, title=f"Runs in {root}", whole={*headings} - _WIDE)
    for run, row in zip(found, rows, strict=True):
        shown.add_row(*row, style=_STYLES.get(run.outcome, "dim"))
    return shown


def run_cells(found: list[ListedRun], most: int | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns headings and rows of a table of text. most: largest number of metrics."""
    names = list(dict.fromkeys(name for run in found for name in run.metrics))[:most]
    rows = [
        (
            run.run_id,
            "" if run.seconds is None else f"{run.seconds} s",
            run.outcome.replace("_", " "),
            *(metric_text(run.metrics[name]) if name in run.metrics else "" for name in names),
            "the first run listed" if run.changes is None else "\n".join(run.changes) or "nothing",
            _message(run),
        )
        for run in found
    ]
    return ("run", "took", "outcome", *names, "what changed", "message"), rows


def _message(run: ListedRun) -> str:
    """Returns why a run was refused or failed, and which version its model is."""
    why = "" if run.outcome == "success" and run.pushed_to else shortened(run.message, _LONGEST_MESSAGE)
    if not run.pushed_to or run.model_now is None:
        return why
    now = "served now" if run.model_now == "served" else f"not served now ({_NOT_SERVED[run.model_now]})"
    return "; ".join(filter(None, [why, f"version {Path(run.pushed_to).name}, {now}"]))
