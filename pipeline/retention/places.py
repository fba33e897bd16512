"""The files of a root that nothing needs any more.

What is needed is known before; every other folder in the places that Fullpass and TFX write to is removed, whether its
record was removed just now, by an earlier call that was cut short, or by a run that was killed.
"""

import json
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from components.data_gate import entries
from components.ingest.manifest import QUARANTINE

_DAY = 24 * 3600.0


@dataclass(frozen=True)
class Unneeded:
    """A file or folder to be removed. kind: of what, as a user knows it."""

    kind: str
    path: Path

    def sizes(self) -> dict[str, int]:
        """Returns bytes by kind: quarantined rows count by themselves."""
        found: dict[str, int] = {}
        files = [self.path] if not self.path.is_dir() else [path for path in self.path.rglob("*") if path.is_file()]
        for file in files:
            kind = "quarantine" if file.name == QUARANTINE else self.kind
            found[kind] = found.get(kind, 0) + file.lstat().st_size
        return found or {self.kind: 0}

    def remove(self) -> None:
        """Removes it."""
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        else:
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class NextRun:
    """What a run of the YAML, as it is now, takes over from earlier ones.

    Attributes:
        spans: numbers of those of the window.
        index: names of the files that tell which spans are in the files of the source; None: not known.
        before: spans before the newest that the data gate compares it with.
        versions: of a span that are compared.
    """

    spans: Collection[int] = ()
    index: Collection[str] | None = None
    before: int = 0
    versions: int = 1


@dataclass(frozen=True)
class Needed:
    """What is needed of a root.

    Attributes:
        folders: of artifacts, without symbolic links; `root` is given so too.
        executions: ids.
        runs: ids.
        fingerprints: of spans.
        since: seconds since 1970; logs and unfinished work that changed later are needed.
        next_run: of the YAML as it is now.
    """

    folders: Collection[Path]
    executions: Collection[int]
    runs: Collection[str]
    fingerprints: Collection[str]
    since: float
    next_run: NextRun = NextRun()


def find_unneeded(root: Path, nodes: Iterable[str], needed: Needed) -> list[Unneeded]:
    """Returns what is not needed, without changing anything.

    Args:
        root: of a pipeline, held by the caller if anything is to be removed.
        nodes: ids of all nodes that are recorded; those that only their folders tell of are looked at too.
        needed: the rest.
    """
    every = {*nodes, *(system.parent.name for system in root.glob("*/.system"))}
    found = [one for node in sorted(every) for one in _of_node(root / node, needed)]
    found += _accumulators(root / "analyzer_cache", needed.fingerprints)
    found += _input_cache(
        root / "input_cache", lambda file: any(file.resolve().is_relative_to(folder) for folder in needed.folders)
    )
    found += _span_statistics(root / "span_statistics", needed)
    found += _span_index(root / "span_index", needed.next_run.index)
    found += _older(root / "work", "*/*", "unfinished work", needed)
    found += _older(root / "schedule", "*.log", "logs", needed)
    found += [one for one in _older(root / "logs", "*", "logs", needed) if one.path.name not in needed.runs]
    return found


def _of_node(folder: Path, needed: Needed) -> Iterator[Unneeded]:
    for output in sorted(folder.glob("[!.]*")):
        for execution in sorted(output.glob("[0-9]*")):
            yield from _outside(execution, needed.folders, f"{folder.name}/{output.name}")
    for own in sorted((folder / ".system" / "executor_execution").glob("[0-9]*")):
        if int(own.name) not in needed.executions:
            yield Unneeded("working files", own)
    for working in sorted((folder / ".system" / "stateful_working_dir").glob("*")):
        yield Unneeded("working files", working)


def _outside(folder: Path, needed: Collection[Path], kind: str) -> Iterator[Unneeded]:
    """Yields `folder`, or of one that holds something needed the folders beside that."""
    if folder in needed:
        return
    if not any(path.is_relative_to(folder) for path in needed):
        yield Unneeded(kind, folder)
        return
    for inner in sorted(folder.iterdir()):
        if inner.is_dir():
            yield from _outside(inner, needed, kind)


def _accumulators(folder: Path, fingerprints: Collection[str]) -> Iterator[Unneeded]:
    """Yields what analyzers made of spans that are not needed; `uses.json`, without a dot before, stays."""
    for file in sorted(folder.glob("*/*")):
        if file.name != "uses.json" and file.name.partition(".")[0] not in fingerprints:
            yield Unneeded("analyzer cache", file)


def _input_cache(folder: Path, needed: Callable[[Path], bool]) -> Iterator[Unneeded]:
    """Yields caches of records that are not needed, and what writers that died have left."""
    for cache in sorted(folder.glob("*")):
        try:
            files = json.loads((cache / "index.json").read_text(encoding="utf-8"))["key"]["files"]
        except (OSError, ValueError, KeyError):
            files = []
        if not files or not all(needed(Path(path)) for path, *_ in files):
            yield Unneeded("input cache", cache)


def _span_statistics(folder: Path, needed: Needed) -> Iterator[Unneeded]:
    """Yields what the data gate knows of spans that it will not compare, and what writers that died have left."""
    files = {path.name: path for path in sorted(folder.glob("*"))}
    after = needed.next_run
    kept = entries.needed(files, needed.fingerprints, before=after.before, versions=after.versions)
    for name, path in files.items():
        if name not in kept:
            yield Unneeded("span statistics", path)


def _span_index(folder: Path, needed: Collection[str] | None) -> Iterator[Unneeded]:
    """Yields what was seen in files of the source that are gone or have changed since."""
    if needed is not None:
        unneeded = (path for path in sorted(folder.glob("*")) if path.name not in needed)
        yield from (Unneeded("span index", path) for path in unneeded)


def _older(folder: Path, pattern: str, kind: str, needed: Needed) -> Iterator[Unneeded]:
    for path in sorted(folder.glob(pattern)):
        if path.stat().st_mtime < min(needed.since, time.time()):
            yield Unneeded(kind, path)
