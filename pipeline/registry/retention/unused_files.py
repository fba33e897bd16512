"""Finds the files of a root that nothing needs.

Every folder that Fullpass and TFX write to is searched, so leftovers of an interrupted collection or a killed run are
found too. No symbolic link is followed; its target stays.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fullpass.base import link_safe_files, state_file
from fullpass.base.link_safe_files import entries
from fullpass.components.data_gate import summary_entries
from fullpass.components.ingest.writing.manifest import QUARANTINE
from fullpass.pipeline.root.layout import RootLayout

_DAY = 24 * 3600.0


@dataclass(frozen=True)
class Unneeded:
    """A file or folder to remove.

    Attributes:
        kind: its kind in the report.
    """

    kind: str
    path: Path

    def sizes(self) -> dict[str, int]:
        """Returns bytes by kind; quarantined rows are a separate kind."""
        found: dict[str, int] = {}
        for file, size in link_safe_files.files(self.path):
            kind = "quarantine" if file.name == QUARANTINE else self.kind
            found[kind] = found.get(kind, 0) + size
        return found or {self.kind: 0}


@dataclass(frozen=True)
class NextRun:
    """The data that the next run of the current YAML reuses.

    Attributes:
        spans: The numbers of the spans of the window.
        index: The names of the span index files of the source; None if unknown.
        before: The number of earlier spans that the data gate compares with the newest one.
        versions: The number of versions of a span that the data gate compares.
    """

    spans: Collection[int] = ()
    index: Collection[str] | None = None
    before: int = 0
    versions: int = 1


@dataclass(frozen=True)
class Needed:
    """The needed parts of a root.

    Attributes:
        folders: Folders of artifacts, as `place` returns them.
        executions: Ids of executions, as text.
        artifacts: Ids of artifacts, as text.
        runs: Ids of runs.
        fingerprints: Fingerprints of spans.
        since: Seconds since 1970; logs and unfinished work that changed later are needed.
        next_run: The data that the next run reuses.
    """

    folders: Collection[Path]
    executions: Collection[str]
    artifacts: Collection[str]
    runs: Collection[str]
    fingerprints: Collection[str]
    since: float
    next_run: NextRun = NextRun()


def find_unneeded(root: Path, nodes: Collection[str], needed: Needed) -> list[Unneeded]:
    """Returns the unneeded files and folders of a root, without changing anything.

    Args:
        root: The pipeline root, without symbolic links, locked by the caller if anything is to be removed.
        nodes: The ids of all recorded nodes; nodes found by their folder alone are searched too.
        needed: The needed parts.
    """
    layout = RootLayout(root)
    own = [folder for folder in entries(root) if folder not in layout.paths()]
    of_nodes = [folder for folder in own if folder.name in nodes or link_safe_files.is_folder(folder / ".system")]
    found = [one for folder in of_nodes for one in _unneeded_of_node(folder, needed)]
    found += _accumulators(layout.analyzer_cache, needed.fingerprints)
    found += _input_cache(
        layout.input_cache, lambda file: any(place(root, file).is_relative_to(folder) for folder in needed.folders)
    )
    found += _span_statistics(layout.span_statistics, needed)
    checksums = (file for file in entries(layout.checksums) if file.stem not in needed.artifacts)
    found += [Unneeded("checksums", file) for file in checksums]
    found += _span_index(layout.span_index, needed.next_run.index)
    work = [left for kind in entries(layout.work) for left in entries(kind)]
    found += _unneeded_by_age(work, "unfinished work", needed)
    found += _unneeded_by_age(entries(layout.schedule, "*.log"), "logs", needed)
    logs = [folder for folder in entries(layout.logs) if folder.name not in needed.runs]
    found += _unneeded_by_age(logs, "logs", needed)
    return found


def place(root: Path, path: Path) -> Path:
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


def _unneeded_of_node(folder: Path, needed: Needed) -> Iterator[Unneeded]:
    for output in entries(folder, "[!.]*"):
        for execution in entries(output, "[0-9]*"):
            yield from _unneeded_folders(execution, needed.folders, f"{folder.name}/{output.name}")
    for own in entries(folder / ".system" / "executor_execution", "[0-9]*"):
        if own.name not in needed.executions:
            yield Unneeded("working files", own)
    for working in entries(folder / ".system" / "stateful_working_dir"):
        yield Unneeded("working files", working)


def _unneeded_folders(folder: Path, needed: Collection[Path], kind: str) -> Iterator[Unneeded]:
    """Yields `folder`; if it contains a needed folder, its other subfolders."""
    if folder in needed:
        return
    if not any(path.is_relative_to(folder) for path in needed):
        yield Unneeded(kind, folder)
        return
    for inner in entries(folder):
        if inner.is_dir():
            yield from _unneeded_folders(inner, needed, kind)


def _accumulators(folder: Path, fingerprints: Collection[str]) -> Iterator[Unneeded]:
    """Yields the accumulators of unneeded spans, but not `uses.json`."""
    for file in (file for release in entries(folder) for file in entries(release)):
        if file.name != "uses.json" and file.name.partition(".")[0] not in fingerprints:
            yield Unneeded("analyzer cache", file)


def _input_cache(folder: Path, needed: Callable[[Path], bool]) -> Iterator[Unneeded]:
    """Yields caches of unneeded records, and unfinished caches of killed writers."""
    for cache in entries(folder):
        try:
            index = state_file.read(cache / "index.json", "")
            files = [Path(path) for path, *_ in index["key"]["files"]]
        except (OSError, ValueError, KeyError, TypeError):
            files = []
        if not files or not all(map(needed, files)):
            yield Unneeded("input cache", cache)


def _span_statistics(folder: Path, needed: Needed) -> Iterator[Unneeded]:
    """Yields statistics of spans that the data gate will not compare, and unfinished files of killed writers."""
    files = {path.name: path for path in entries(folder)}
    after = needed.next_run
    kept = summary_entries.needed(files, needed.fingerprints, before=after.before, versions=after.versions)
    for name, path in files.items():
        if name not in kept:
            yield Unneeded("span statistics", path)


def _span_index(folder: Path, needed: Collection[str] | None) -> Iterator[Unneeded]:
    """Yields index files for source files that were deleted or have changed."""
    if needed is not None:
        yield from (Unneeded("span index", path) for path in entries(folder) if path.name not in needed)


def _unneeded_by_age(paths: Iterable[Path], kind: str, needed: Needed) -> Iterator[Unneeded]:
    for path in paths:
        if link_safe_files.modified(path) < min(needed.since, time.time()):
            yield Unneeded(kind, path)
