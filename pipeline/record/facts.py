"""The facts of a run, each with its meaning and its unit. Whatever tells of a run reads them from here.

A run writes `run.json` beside its logs: what it knows when it starts, and all its facts when it has ended. A new fact
is a field here, and a value where it is known (gather_facts.py); what shows it reads the field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fullpass.base import state_file
from fullpass.base.json_text import finite
from fullpass.base.redact import redact_tree

UNFINISHED = "unfinished"
"""The outcome of a run that recorded no end: it is running, or it was killed."""


def fact(default: Any, meaning: str, unit: str = "", *, told: bool = False, kept: bool = False) -> Any:
    """Returns the field of a fact.

    Args:
        default: Its value while it is not known; `dict` or `list` for an empty one.
        told: Whether a notification of the run holds it.
        kept: Whether the history keeps it after `fullpass gc` has removed the logs.
    """
    metadata = {"meaning": meaning, "unit": unit, "told": told, "kept": kept}
    return field(default_factory=default if default in (dict, list) else lambda: default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The facts of a run, as JSON data without secrets. One that is not known (yet) has its default."""

    pipeline: str = fact("", "The name of the pipeline.", told=True)
    file: str = fact("", "The path of its YAML.", told=True)
    exit_code: int | None = fact(None, "The exit code of `fullpass run`.", told=True, kept=True)
    span: str | None = fact(None, "The newest span of the window, as a label.", told=True, kept=True)
    first_span: str | None = fact(None, "The oldest span of the window, as a label.", told=True, kept=True)
    occasion: str | None = fact(None, "The occasion of the schedule; null for a run by hand.", told=True, kept=True)
    run_id: str = fact("", "The name of the run and of its log folder.", told=True, kept=True)
    seconds: float | None = fact(None, "The wall time of all nodes.", "s", told=True, kept=True)
    metrics: Mapping[str, Any] = fact(dict, "Metric -> value on the eval split.", told=True, kept=True)
    reasons: Sequence[str] = fact(list, "Why the model was not blessed.", told=True)
    model: str | None = fact(None, "The folder of the trained model.", told=True)
    pushed_to: str | None = fact(
        None, "The folder of the version that its model is, pushed in this run or before.", told=True, kept=True
    )
    report: str | None = fact(None, "The page of the run, or of the data gate that stopped it.", told=True)
    logs: str | None = fact(None, "The folder of its logs.", told=True)

    config: Mapping[str, str] = fact(dict, "The YAML: `hash` of all its settings, and its text, `yaml`.")
    code: Mapping[str, str | None] = fact(dict, "The versions and digests of the code (provenance.py).")
    config_digest: str = fact("", "Digest of the settings and of the user's code that determine the model.", kept=True)
    data_digest: str = fact("", "Digest of the data of the window.", kept=True)
    unit: str | None = fact(None, "The unit of the spans; null for a source without spans.", kept=True)
    first: int | None = fact(None, "The number of the oldest span.", kept=True)
    last: int | None = fact(None, "The number of the newest span.", kept=True)

    started: str | None = fact(None, "The time of the start, UTC, ISO 8601.", kept=True)
    ended: str | None = fact(None, "The time of the end, UTC, ISO 8601.", kept=True)
    ok: bool = fact(False, "Whether every node succeeded.")
    outcome: str = fact(UNFINISHED, "success, not_blessed, gate_stop, failure or interrupted.", kept=True)
    message: str = fact("it runs, or was killed", "Why it was refused or failed, or where its model is.", kept=True)
    trained: bool = fact(False, "Whether it evaluated a model that was trained on its whole window.", kept=True)
    unread: bool = fact(False, "Whether not even the metadata could be read, so its outputs are unknown.")
    nodes: Mapping[str, Mapping[str, Any]] = fact(
        dict, "Node -> status, seconds, cpu_seconds, peak_mib, and after: the nodes it waits for."
    )
    recorded_as: str | None = fact(None, "The earlier run in whose records its artifacts are; null for its own.")

    rows: Mapping[str, int] | None = fact(None, "Split -> rows.", "rows")
    rows_read: int = fact(0, "Rows of the files of the window.", "rows", kept=True)
    rows_per_second: int = fact(0, "The speed of Ingest, for a window of one span.", "rows a second")
    rows_quarantined: int = fact(0, "Bad rows.", "rows")
    quarantine: Sequence[str] = fact(list, "The files of the bad rows.")
    spans_without_rows: Sequence[str] = fact(
        list, "The spans whose files hold no row; `(the newest)` marks the newest."
    )
    rows_in_two_splits: Mapping[str, int] = fact(dict, "`eval in train` -> rows of eval that train has too.", "rows")
    rows_unmatched: Mapping[str, int] = fact(dict, "Join -> rows without a match.", "rows")
    histories_cut: Mapping[str, int] = fact(dict, "History -> rows whose list is cut.", "rows")
    histories_without: Mapping[str, int] = fact(dict, "History -> rows without an entity or date.", "rows")
    rows_left_out: Mapping[str, int] = fact(dict, "Reason -> rows that are in no split and not bad.", "rows")
    uneven_labels: Sequence[str] = fact(list, "The splits whose label is distributed otherwise than in all rows.")
    new_labels: Sequence[str] = fact(list, "The splits with classes that train never has.")
    label_notes: Sequence[str] = fact(list, "Both, beside the metrics of eval.")
    data_gate: Mapping[str, Any] | None = fact(None, "What the data gate found, and what it compared.")
    analysis: Mapping[str, Any] | None = fact(None, "The spans whose statistics were cached (`hit`), or not, and why.")
    schema_differences: int = fact(0, "Differences of the data from the declared schema.")

    training: Mapping[str, Any] | None = fact(None, "The course of the training, of training.json.")
    trials: Sequence[Mapping[str, Any]] | None = fact(None, "The trials of a search, best first.")
    model_run: str | None = fact(None, "The folder of the Trainer's records.")
    parity_rows: int | None = fact(None, "Rows that are equal in training and serving.", "rows")
    latency_ms: float | None = fact(None, "The answer of the export for one row.", "ms")
    evaluation: str | None = fact(None, "The folder of the Evaluator's measurements and verdict.")
    blessed: bool | None = fact(None, "Whether the model met its thresholds; null if none was evaluated.", kept=True)
    examples: int = fact(0, "Rows that the metrics are measured on.", "rows")
    notes: Sequence[str] = fact(list, "What was not judged, and why.")
    baseline: Mapping[str, Any] = fact(dict, "Metric -> value of the last blessed model.")
    baselines: Sequence[str] = fact(list, "How each baseline of a forecast compares with the model.")
    newest_span: Mapping[str, Any] = fact(dict, "Metric -> `value` and `baseline` on the newest span.")
    newly_pushed: bool = fact(False, "Whether this run pushed its model; if not, another did.")
    served: str | None = fact(None, "The folder of the version that was served when the run ended.")
    not_served: str = fact("", "Why the version of its model is not served, and what to do; empty if it is.")

    @property
    def spans(self) -> tuple[str, str] | None:
        """The oldest and the newest span of its window, as labels; None for a source without spans."""
        return (self.first_span, self.span) if self.first_span is not None and self.span is not None else None

    @classmethod
    def names(cls, mark: str) -> tuple[str, ...]:
        """Returns the names of the facts with a mark, `told` or `kept`."""
        return tuple(one.name for one in fields(cls) if one.metadata[mark])

    def marked(self, mark: str) -> dict[str, Any]:
        """Returns the facts with a mark by name."""
        return {name: getattr(self, name) for name in self.names(mark)}

    def plus(self, facts: Mapping[str, Any]) -> "RunFacts":
        """Returns the facts with further ones, by name, as their file holds them: without secrets, NaN as None."""
        return replace(self, **finite(redact_tree(dict(facts))))

    @classmethod
    def of(cls, recorded: Mapping[str, Any]) -> "RunFacts":
        """Returns recorded facts; entries that are no facts are left out."""
        return cls(**{one.name: recorded[one.name] for one in fields(cls) if one.name in recorded})


def write_facts(facts: RunFacts, path: Path) -> None:
    """Writes the facts as a state file (fullpass/base/state_file.py), atomically."""
    state_file.write(path, asdict(facts), indent=1)


def read_facts(path: Path, what_to_do: str) -> RunFacts:
    """Returns the facts of a file; see `state_file.read`."""
    return RunFacts.of(state_file.read(path, what_to_do))
