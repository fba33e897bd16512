"""Who a report is: its date, its run and model, the versions, the configuration, and the data that was read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fullpass.base.redact import redact
from fullpass.components.ingest.writing.manifest import Manifest
from fullpass.components.mlmd_values import RecordedArtifact
from fullpass.trainer.export.run_provenance import read_run_facts

_MOST_FILES = 200
"""Number of files that the page lists, the newest, so that years of days do not fill it."""


@dataclass(frozen=True)
class ReportIdentity:
    """Who the report is.

    Attributes:
        facts: Name and value.
        yaml: The configuration as text; "" if it was not recorded.
        files: Path, span, rows read and rows quarantined of each file that was read.
        left_out: The number of files that `files` does not list.
    """

    facts: tuple[tuple[str, str], ...] = ()
    yaml: str = ""
    files: tuple[tuple[str, str, str, str], ...] = ()
    left_out: int = 0


def identity(
    record: Mapping[str, Any], examples: Sequence[RecordedArtifact], manifests: Sequence[Manifest]
) -> ReportIdentity:
    """Returns the identity of the report that this process writes.

    Args:
        record: The content of training.json. Its run differs from the report's if the model was trained before.
        examples, manifests: The spans and what was read of each.
    """
    trained = record.get("model", {}).get("lineage", {})
    run = read_run_facts() or trained
    config, labels = run.get("config", {}), _labels(examples)
    facts = [
        ("made", f"{datetime.now().astimezone():%Y-%m-%d %H:%M %z}"),
        ("run", run.get("run") or ""),
        ("model", _trained_before(trained, run)),
        ("Fullpass", code_words(run.get("code", {}))),
        ("configuration", config.get("hash", "")),
        ("spans", f"{labels[0]} to {labels[-1]}, {len(labels)}" if len(labels) > 1 else "".join(labels)),
    ]
    files = [
        (redact(one.path), label, f"{one.read:,}", f"{one.quarantined:,}")
        for label, manifest in zip(labels, manifests, strict=True)
        for one in manifest.by_file
    ]
    tables = dict.fromkeys(join for manifest in manifests for join in manifest.joins)
    files += [(redact(path), f"join {join.name}", f"{join.table_rows:,}", "") for join in tables for path in join.files]
    known = tuple((name, value) for name, value in facts if value)
    return ReportIdentity(known, config.get("yaml", ""), tuple(files[-_MOST_FILES:]), max(0, len(files) - _MOST_FILES))


def code_words(code: Mapping[str, Any]) -> str:
    """Returns the code of a run's facts as text.

    Example:
        >>> code_words({"fullpass": "0.1.0", "commit": "5b4c563", "user": None, "line": "TFX 1.21.0"})
        '0.1.0, commit 5b4c563, with TFX 1.21.0'
    """
    parts = [code.get("fullpass"), *(f"{key} {code[key]}" for key in ("commit", "source") if code.get(key))]
    parts += [f"own code {code['user']}"] if code.get("user") else []
    return ", ".join(filter(None, [*parts, f"with {code['line']}" if code.get("line") else ""]))


def _trained_before(trained: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    if not trained.get("run") or trained["run"] == run.get("run"):
        return ""
    before, now = (facts.get("config", {}).get("hash") for facts in (trained, run))
    return f"trained in run {trained['run']}" + (f", configuration {before}" if before != now else "")


def _labels(examples: Sequence[RecordedArtifact]) -> list[str]:
    """Returns the labels of the spans; "" for a source without spans, whose only span has number 0."""
    labels = [str(one.properties.get("label") or "") for one in examples]
    return [""] if labels == ["0"] else labels
