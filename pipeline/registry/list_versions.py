"""Lists the versions in a folder of pushed models from their descriptions, without the metadata."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from fullpass.base.metric_text import metric_text
from fullpass.base.state_file import READ_BYTES
from fullpass.components.pages import notebook_html as html
from fullpass.components.push import push
from fullpass.pipeline.printing import simple_table
from fullpass.pipeline.record.config_diff import Settings

_SHOWN_METRICS = 3
"""Metrics in a terminal, beside ten other columns; `--json` has all."""
_STYLES = {"served": "green", "put aside": "dim"}
_DAMAGED = "red"
_UNEQUAL = (
    "Metrics are of the same rows only where the letter of the eval rows is the same. `fullpass compare VERSION "
    "VERSION` measures two versions on the same rows."
)


@dataclass(frozen=True)
class Version:
    """A pushed model.

    Example:
        >>> (version,) = fullpass.load("pipeline.yaml").versions()
        >>> version.state, version.rows, version.damaged
        ('served', 400, None)

    Attributes:
        state: `served`, `kept` (a rollback can serve it) or `put aside` (by a rollback; `--to` can serve it).
        pushed: The time of the push, local with offset, ISO 8601.
        model: The address of the model artifact that it is a copy of.
        spans: The oldest and the newest training span and the number of spans; None for a source without spans.
        code: The version of Fullpass, and the commit of the YAML's folder.
        blessed_by: The Evaluator, or the person who overruled it.
        refreshed: Who gave it the tables that it looks up, when, and from which version; None if nobody did.
        damaged: The damage of its files and what to do about it; None if it is undamaged.
        eval_rows: Digest of these rows: their data, split and label. Metrics of versions are of the same rows if it is
            equal; None if it is unknown.
    """

    version: int
    state: str
    pushed: str
    folder: str
    model: str | None
    metrics: dict[str, float]
    spans: dict[str, Any] | None
    rows: int | None
    config_hash: str | None
    code: str | None
    blessed_by: str | None
    damaged: str | None
    refreshed: dict[str, Any] | None = None
    examples: int | None = None
    eval_rows: str | None = None


class Versions(list[Version]):
    """Pushed models, newest first; a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        title = "Pushed models" if self else "No model has been pushed"
        return html.block(title, html.table(*version_cells(self)), rows_note(self))


def version_cells(found: Sequence[Version]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns headings and rows of a table of text."""
    names = list(dict.fromkeys(name for version in found for name in version.metrics))
    groups = _groups(found)
    rows = [
        (
            str(version.version),
            version.pushed[:16].replace("T", " "),
            version.damaged or (f"{version.state}, refreshed" if version.refreshed else version.state),
            *(metric_text(version.metrics[name]) if name in version.metrics else "" for name in names),
            _eval_rows_text(version, groups),
            window_text(version.spans),
            "" if version.rows is None else f"{version.rows:,}",
            version.folder,
        )
        for version in found
    ]
    return ("version", "pushed", "state", *names, "eval rows", "spans", "rows", "folder"), rows


def rows_note(found: Sequence[Version]) -> str:
    """Returns what the letters of the eval rows mean; empty if all metrics are of the same rows."""
    measured = {version.eval_rows for version in found if version.metrics}
    are_equal = len(measured) < 2 and (None not in measured or len(found) < 2)
    return "" if are_equal else _UNEQUAL


def read_versions(target: Path, most: int | None = None) -> Versions:
    """Returns the newest versions in a folder of pushed models, newest first. most: their largest number."""
    served = push.served_version(target)
    kept = {version: "served" if version == served else "kept" for version in push.served_versions(target)}
    states = dict.fromkeys(push.rolled_back(target), "put aside") | kept
    return Versions(_read(target, version, states[version]) for version in sorted(states, reverse=True)[:most])


def _read(target: Path, version: int, state: str) -> Version:
    folder = push.folder_of(target, version)
    lineage = push.description(folder).get(push.LINEAGE) or {}
    blessing = lineage.get("blessing") or {}
    spans = lineage.get("spans") or []
    return Version(
        version=version,
        state=state,
        pushed=datetime.fromtimestamp(version).astimezone().isoformat(timespec="seconds"),
        folder=str(folder),
        model=push.origin_of(folder),
        metrics={name: value for name, value in (lineage.get("metrics") or {}).items() if value is not None},
        spans=_window_of(spans),
        rows=sum(span["rows_read"] for span in spans) if spans else None,
        config_hash=(lineage.get("config") or {}).get("hash"),
        code=code_text(lineage.get("code") or {}),
        blessed_by=blessing.get("by"),
        damaged=push.damage_of_version(folder, largest=READ_BYTES),
        refreshed=lineage.get("refreshed"),
        examples=lineage.get("examples_evaluated"),
        eval_rows=_eval_rows(lineage),
    )


def _eval_rows(lineage: dict[str, Any]) -> str | None:
    """Returns 6 hex digits of the data and settings that decide on the eval rows of a model and their labels."""
    spans, yaml = lineage.get("spans") or [], (lineage.get("config") or {}).get("yaml")
    settings = Settings.read(yaml).complete if yaml else None
    digests = [span.get("source_rows") for span in spans]
    if not settings or not all(digests):
        return None
    data = {key: settings["data"].get(key) for key in ("split", "derive")}
    facts = [digests, [span["rows"] for span in spans], data, settings["label"], lineage.get("examples_evaluated")]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:6]


def _groups(found: Sequence[Version]) -> dict[int, str]:
    """Returns a letter for each version whose metrics are of known rows: the same letter for the same rows."""
    digests = list(dict.fromkeys(version.eval_rows for version in found if version.eval_rows))
    letters = {digest: chr(ord("a") + i) if i < 26 else digest for i, digest in enumerate(digests)}
    return {version.version: letters[version.eval_rows] for version in found if version.eval_rows}


def _eval_rows_text(version: Version, groups: dict[int, str]) -> str:
    return "" if version.examples is None else f"{version.examples:,} {groups.get(version.version, '?')}"


def _window_of(spans: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the first and last span of a lineage and the number of spans; None for a source without spans."""
    named = [span["span"] for span in spans if span["span"]]
    return {"first": named[0], "last": named[-1], "count": len(named)} if named else None


def code_text(code: dict[str, Any]) -> str | None:
    """Returns the code of a lineage as `0.1.0, 5b4c563-dirty`."""
    return ", ".join(filter(None, [code.get("fullpass"), code.get("commit")])) or None


def table(found: list[Version], target: Path) -> RenderableType:
    """Returns the versions as a table for people."""
    if not found:
        return f"No model has been pushed to {target}."
    names = list(dict.fromkeys(name for version in found for name in version.metrics))[:_SHOWN_METRICS]
    groups = _groups(found)
    headings = ("version", "pushed", "", *names, "eval rows", "spans", "rows", "config", "code", "blessed by")
    numbers, whole = (*names, "eval rows", "rows"), ("version", "", "config")
    shown = simple_table(headings, title=f"Models in {target}", right=numbers, whole=whole)
    for version in found:
        metrics = [metric_text(version.metrics[name]) if name in version.metrics else "" for name in names]
        style = _DAMAGED if version.damaged else _STYLES.get(version.state, "")
        shown.add_row(
            str(version.version),
            version.pushed[:16].replace("T", " "),
            version.state + ", refreshed" * bool(version.refreshed) + ", damaged" * bool(version.damaged),
            *metrics,
            _eval_rows_text(version, groups),
            window_text(version.spans),
            "" if version.rows is None else f"{version.rows:,}",
            version.config_hash or "",
            version.code or "",
            version.blessed_by or "",
            style=style,
        )
    damaged = [Text(version.damaged, style=_DAMAGED) for version in found if version.damaged]
    return Group(shown, *filter(None, [Text(rows_note(found))]), *damaged)


def window_text(window: dict[str, Any] | None) -> str:
    """Returns `2013-01-01 to 2013-01-30, 30`, one label for a single span, or nothing."""
    if window is None:
        return ""
    if window["count"] == 1:
        return str(window["first"])
    return f"{window['first']} to {window['last']}, {window['count']}"
