"""Lists the runs of a root: when, what changed since the run before, verdict and metrics. No TensorFlow, no metadata.

The history holds every run that has ended, with its metrics; the folder of its logs has the YAML, until `fullpass gc`
removes it. Of a run that trained no model, gc removes the row as well; the next one is compared with the one before it
that is left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import starmap, zip_longest
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from fullpass.base.metric_text import metric_text
from fullpass.components.push.pushed_version import State, state_now
from fullpass.pipeline.printing import shortened, simple_table
from fullpass.pipeline.record.config_diff import Settings, differences
from fullpass.pipeline.record.facts import RunFacts, read_facts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.root.layout import RootLayout
from fullpass.trainer.insight.leaderboard import cells, leaderboard

_STYLES = {"success": "green", "not_blessed": "yellow", "failure": "red", "gate_stop": "red"}
_DAMAGED_FACTS = "Remove it: the run is then listed with what the history keeps."
_SHOWN_METRICS = 3
_LONGEST_MESSAGE = 200
_WIDE = {"what changed", "message"}
_NOT_SERVED: dict[State, str] = {"kept": "a newer one is", "put aside": "put aside", "gone": "removed"}


@dataclass(frozen=True)
class ListedRun:
    """A run of a root.

    Attributes:
        changed: What changed since the run before, by `YAML`, `data` and `code`; None for the first run.
        model_now: What the version of its model is now: `served`, `kept` behind a newer one, `put aside` by a rollback,
            or `gone`.
    """

    facts: RunFacts
    changed: Mapping[str, Sequence[str]] | None
    model_now: State | None

    @property
    def changes(self) -> tuple[str, ...] | None:
        """What changed since the run before, as lines, the YAML first; None for the first run."""
        if self.changed is None:
            return None
        shown = {kind: "" if kind == "YAML" else f"{kind}: " for kind in self.changed}
        return tuple(f"{shown[kind]}{line}" for kind, found in self.changed.items() for line in found)

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics that are numbers."""
        return {name: value for name, value in self.facts.metrics.items() if value is not None}

    @property
    def started(self) -> str | None:
        """The local time of the start with its offset, ISO 8601."""
        began = self.facts.started and datetime.fromisoformat(self.facts.started).replace(tzinfo=UTC)
        return began.astimezone().isoformat(timespec="seconds") if began else None

    @property
    def seconds(self) -> int | None:
        """The time that it took, in whole seconds."""
        return None if self.facts.seconds is None else round(self.facts.seconds)

    @property
    def listing(self) -> dict[str, Any]:
        """The run as `fullpass runs --json` has it."""
        facts = self.facts
        return {
            "run_id": facts.run_id,
            "started": self.started,
            "seconds": self.seconds,
            "outcome": facts.outcome,
            "message": facts.message,
            "changes": self.changes,
            "spans": facts.spans,
            "rows": facts.rows_read or None,
            "blessed": facts.blessed,
            "metrics": self.metrics,
            "pushed_to": facts.pushed_to,
            "model_now": self.model_now,
            "config_hash": facts.config.get("hash"),
            "occasion": facts.occasion or "",
            "report": facts.report,
        }


def read_runs(root: Path, most: int) -> list[ListedRun]:
    """Returns the newest runs of a root, newest first.

    Args:
        most: Largest number of runs; only their files are read, so a root of thousands of runs is listed as fast.

    Raises:
        DamagedState: The file of a run is damaged.
    """
    found = recorded_runs(root, most + 1)
    return list(starmap(_listed, zip_longest(found, found[1:])))[:most]


def _listed(now: RunFacts, before: RunFacts | None) -> ListedRun:
    changed = _changes(before, now) if before else None
    return ListedRun(now, changed, state_now(now.pushed_to) if now.pushed_to else None)


def recorded_runs(root: Path, most: int) -> list[RunFacts]:
    """Returns what the newest runs of a root left, newest first: their files, and what the history keeps."""
    layout = RootLayout(root)
    ended = {run.run_id: run for run in RunHistory(root).newest(most)}
    oldest = min(ended, default="") if len(ended) == most else ""
    logged = {folder.name for folder in layout.logs.iterdir()} if layout.logs.is_dir() else set()
    begun = {name for name in logged - ended.keys() if name > oldest and layout.run_file(name).is_file()}
    return [_recorded(layout, name, ended.get(name)) for name in sorted({*ended, *begun}, reverse=True)[:most]]


def _recorded(layout: RootLayout, run_id: str, ended: RunFacts | None) -> RunFacts:
    file = layout.run_file(run_id)
    found = read_facts(file, _DAMAGED_FACTS) if file.is_file() else RunFacts()
    return replace(found, **{"run_id": run_id, **(ended.marked("kept") if ended else {})})


def _changes(before: RunFacts, now: RunFacts) -> dict[str, list[str]]:
    """Returns what changed from one run to the next, by kind; kinds without a change are left out."""
    changes: dict[str, list[str]] = {"YAML": [], "data": [], "code": []}
    if not (before.config and now.config):
        if before.config_digest and now.config_digest and before.config_digest != now.config_digest:
            changes["YAML"].append("the YAML (the logs with its text are gone)")
    elif before.config["hash"] != now.config["hash"]:
        changes["YAML"] += map(str, differences(*(Settings.read(one.config["yaml"]) for one in (before, now))))
    if before.data_digest and now.data_digest and before.data_digest != now.data_digest:
        changes["data"].append(_data_change(before, now))
    for name, words in (("fullpass", "Fullpass"), ("line", "the line of TFX"), ("user", "your functions")):
        values = [one.code.get(name) for one in (before, now)]
        if values[0] != values[1] and before.code and now.code:
            changes["code"].append(words + (f" {values[0]} -> {values[1]}" if name != "user" else ""))
    return {kind: found for kind, found in changes.items() if found}


def _data_change(old: RunFacts, new: RunFacts) -> str:
    counts = (old.rows_read, new.rows_read)
    read = f", {counts[0]:,} -> {counts[1]:,} rows" if all(counts) and counts[0] != counts[1] else ""
    windows = [" to ".join(one.spans or ()) for one in (old, new)]
    return (f"{windows[0]} -> {windows[1]}" if windows[0] != windows[1] else "other files") + read


def leaderboard_of(facts: RunFacts) -> list[dict[str, Any]]:
    """Returns what a run tried: models, alone and blended, and the trials of its search; see `leaderboard`."""
    return leaderboard(facts.training or {}, facts.trials or ())


def leaderboards(found: list[ListedRun]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns the headings and rows of what runs tried, as one table of text."""
    rows = [(run.facts.run_id, row) for run in found for row in leaderboard_of(run.facts)]
    headings, shown = cells([row for _, row in rows])
    return ("run", *headings), [(run, *texts) for (run, _), texts in zip(rows, shown, strict=True)]


def leaderboard_table(found: list[ListedRun], root: Path) -> RenderableType:
    """Returns what runs tried as a table for people."""
    headings, rows = leaderboards(found)
    if not rows:
        return f"The runs in {root} tried one model each: `model: {{kind: auto}}` and `tuning` try several."
    numbers = {*headings} - {"run", "model", "kept", "metric"}
    title = f"What the runs in {root} tried, measured before calibration"
    return simple_table(headings, rows, title=title, right=numbers, whole={*headings} - {"model"})


def table(found: list[ListedRun], root: Path) -> RenderableType:
    """Returns the runs as a table for people."""
    if not found:
        return f"No run has been made in {root}."
    headings, rows = run_cells(found, most=_SHOWN_METRICS)
    shown = simple_table(headings, title=f"Runs in {root}", whole={*headings} - _WIDE)
    for run, row in zip(found, rows, strict=True):
        shown.add_row(*row, style=_STYLES.get(run.facts.outcome, "dim"))
    return shown


def run_cells(found: list[ListedRun], most: int | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns headings and rows of a table of text. most: largest number of metrics."""
    names = list(dict.fromkeys(name for run in found for name in run.metrics))[:most]
    rows = [
        (
            run.facts.run_id,
            "" if run.seconds is None else f"{run.seconds} s",
            run.facts.outcome.replace("_", " "),
            *(metric_text(run.metrics[name]) if name in run.metrics else "" for name in names),
            "the first run listed" if run.changes is None else "\n".join(run.changes) or "nothing",
            _message(run),
        )
        for run in found
    ]
    return ("run", "took", "outcome", *names, "what changed", "message"), rows


def _message(run: ListedRun) -> str:
    """Returns why a run was refused or failed, and which version its model is."""
    facts = run.facts
    why = "" if facts.outcome == "success" and facts.pushed_to else shortened(facts.message, _LONGEST_MESSAGE)
    if not facts.pushed_to or run.model_now is None:
        return why
    now = "served now" if run.model_now == "served" else f"not served now ({_NOT_SERVED[run.model_now]})"
    return "; ".join(filter(None, [why, f"version {Path(facts.pushed_to).name}, {now}"]))
