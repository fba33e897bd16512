"""`fullpass gc`: finds the unneeded records and files of a root, reports their size, and removes them.

It removes the records first, in one transaction, and then the files that no record names. So an interrupted collection
leaves no record without its files, and the next collection removes the rest. Every folder that Fullpass and TFX write
to is searched, so leftovers of a killed run are found too. No symbolic link is followed; its target stays.
"""

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fullpass.base import folders
from fullpass.base.errors import UserError
from fullpass.base.folders import entries
from fullpass.components.data_gate import summary_entries
from fullpass.components.ingest.writing.manifest import QUARANTINE
from fullpass.components.push.push import pushed_origins
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.registry.retention.records import (
    LIVE,
    Kept,
    MetadataRecords,
    find_kept,
    read_metadata,
    removal_of,
    remove_records,
)
from fullpass.pipeline.root.check import check_own_root, check_root
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.root.locks import run_lock


@dataclass(frozen=True)
class Unneeded:
    """A file or folder to remove, and its kind in the report."""

    kind: str
    path: Path

    def sizes(self) -> dict[str, int]:
        """Returns bytes by kind; quarantined rows are a separate kind."""
        found = Counter[str]()
        for file, size in folders.files(self.path):
            found["quarantine" if file.name == QUARANTINE else self.kind] += size
        return found or {self.kind: 0}


@dataclass(frozen=True)
class NextRun:
    """The data that the next run of the current YAML reuses.

    Attributes:
        index: The names of the span index files of the source; None if unknown.
        before: The number of earlier spans that the data gate compares with the newest one.
        versions: The number of versions of a span that the data gate compares.
    """

    spans: Collection[int] = ()
    index: Collection[str] | None = None
    before: int = 0
    versions: int = 1


@dataclass(frozen=True)
class Freed:
    """The sizes and numbers that a collection removes.

    Attributes:
        counts: Files, folders and entries by kind.
        records: The number of "artifacts", "executions" and "runs" removed from the metadata.
        kept: The number of "runs" and "models" kept.
        links: Names of symbolic links in the root. Their targets are neither searched nor removed.
    """

    sizes: dict[str, int]
    counts: dict[str, int]
    records: dict[str, int]
    kept: dict[str, int]
    links: tuple[str, ...] = ()


def collect(root: Path, target: Path, newest: int, next_run: NextRun, *, dry_run: bool = False) -> Freed:
    """Removes the files and records that no kept run, model or window needs; returns the sizes and numbers.

    Args:
        newest: The number of newest runs to keep, 1 or more.
        target: The folder of its pushed models. All of them are kept, including those put aside.

    Raises:
        UserError: A run holds the root, the metadata has another schema version, or the root was moved.
    """
    check_own_root(root)
    with nullcontext() if dry_run else run_lock(root, what="fullpass gc"):
        check_root(root)
        root = root.resolve()
        metadata, history = RootLayout(root).metadata, RunHistory(root)
        records = read_metadata(metadata)
        kept = find_kept(records, newest, pushed_origins(target), next_run.spans)
        since = min((run.created for run in records.runs[-newest:]), default=time.time())
        removal = removal_of(records, kept)
        unneeded = find_unneeded(root, records, kept, next_run, since)
        oldest = datetime.fromtimestamp(since, UTC)
        old = history.delete_before(oldest, dry_run=True)
        counts, sizes = Counter(one.kind for one in unneeded), Counter[str]()
        for one in unneeded:
            sizes.update(one.sizes())
        freed = Freed(
            dict(sizes),
            dict(counts) | ({"history": old} if old else {}),
            records={
                "artifacts": len(removal.artifacts),
                "executions": len(removal.executions),
                "runs": len(removal.runs),
            },
            kept={"runs": len(kept.runs), "models": len(kept.models)},
            links=tuple(entry.name for entry in folders.entries(root) if entry.is_symlink()),
        )
        if not dry_run:
            if any(vars(removal).values()):
                remove_records(metadata, removal)
            for one in unneeded:
                folders.remove(one.path)
            history.delete_before(oldest)
    return freed


def find_unneeded(root: Path, records: MetadataRecords, kept: Kept, next_run: NextRun, since: float) -> list[Unneeded]:
    """Returns the unneeded files and folders of a root, without changing anything.

    Args:
        root: The pipeline root, without symbolic links, locked by the caller if anything is to be removed.
        since: When the oldest of the newest runs began, in seconds since 1970; logs, tables and unfinished work that
            changed later are needed.

    Raises:
        UserError: An artifact lies outside the root.
    """
    layout = RootLayout(root)
    located = _artifact_folders(root, records)
    needed = {located[artifact] for artifact in kept.files if artifact in located}
    fingerprints = {str(records.artifacts[artifact].properties.get("fingerprint")) for artifact in kept.files}
    runs = {run.name for run in records.runs if run.id in kept.runs}
    statistics = entries(layout.span_statistics)
    compared = summary_entries.needed(
        [file.name for file in statistics], fingerprints, before=next_run.before, versions=next_run.versions
    )
    found: list[Unneeded] = []
    for folder in entries(root):
        if folder not in layout.paths() and folders.is_folder(folder / ".system"):
            found += _of_node(folder, needed, kept.executions)
    accumulators = (file for release in entries(layout.analyzer_cache) for file in entries(release))
    span_index = entries(layout.span_index) if next_run.index is not None else []
    unneeded: Mapping[str, Iterable[Path]] = {
        "analyzer cache": (
            f for f in accumulators if f.name != "uses.json" and f.name.partition(".")[0] not in fingerprints
        ),
        "input cache": entries(layout.input_cache),
        "span statistics": (file for file in statistics if file.name not in compared),
        "checksums": (file for file in entries(layout.checksums) if file.stem not in set(map(str, kept.files))),
        "span index": (file for file in span_index if file.name not in (next_run.index or ())),
        "unfinished work": _older(since, (left for kind in entries(layout.work) for left in entries(kind))),
        "tables of runs": _older(since, entries(layout.tables)),
        "logs": _older(
            since, (*entries(layout.schedule, "*.log"), *(f for f in entries(layout.logs) if f.name not in runs))
        ),
    }
    return found + [Unneeded(kind, path) for kind, paths in unneeded.items() for path in paths]


def resolve_in_root(root: Path, path: Path) -> Path:
    """Returns the location of a path in a root without following links inside it; outside, the resolved path.

    Args:
        root: The root, without symbolic links.
        path: An absolute path, whose leading part may reach the root through links.
    """
    path = Path(os.path.normpath(path))
    for above in (path, *path.parents):
        if Path(os.path.realpath(above)) == root:
            return root / path.relative_to(above)
    return Path(os.path.realpath(path))


def _artifact_folders(root: Path, records: MetadataRecords) -> dict[int, Path]:
    located: dict[int, Path] = {}
    for artifact in records.artifacts.values():
        if artifact.state == LIVE:
            located[artifact.id] = resolve_in_root(root, Path(artifact.uri))
            if not located[artifact.id].is_relative_to(root):
                raise UserError(
                    f"{RootLayout(root).metadata} records an artifact at {artifact.uri}, which is outside {root}: "
                    "the root was copied or moved, or is mounted elsewhere. Nothing was removed. Call gc on the "
                    "machine that made the runs."
                )
    return located


def _of_node(folder: Path, needed: Collection[Path], executions: Collection[int]) -> Iterator[Unneeded]:
    for output in entries(folder, "[!.]*"):
        for execution in entries(output, "[0-9]*"):
            yield from _without_needed(execution, needed, f"{folder.name}/{output.name}")
    for own in entries(folder / ".system" / "executor_execution", "[0-9]*"):
        if own.name not in set(map(str, executions)):
            yield Unneeded("working files", own)
    for working in entries(folder / ".system" / "stateful_working_dir"):
        yield Unneeded("working files", working)


def _without_needed(folder: Path, needed: Collection[Path], kind: str) -> Iterator[Unneeded]:
    """Yields `folder`; if it contains a needed folder, its other subfolders."""
    if folder in needed:
        return
    if not any(path.is_relative_to(folder) for path in needed):
        yield Unneeded(kind, folder)
        return
    for inner in entries(folder):
        if inner.is_dir():
            yield from _without_needed(inner, needed, kind)


def _older(since: float, paths: Iterable[Path]) -> Iterator[Path]:
    return (path for path in paths if folders.modified(path) < since)
