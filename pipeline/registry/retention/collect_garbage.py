"""`fullpass gc`: finds the unneeded records and files of a root, reports their size, and removes them.

It removes the records first, in one transaction, and then the files that no record names. So an interrupted collection
leaves no record without its files, and the next collection removes the rest.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fullpass.base import link_safe_files
from fullpass.base.errors import UserError
from fullpass.components.push.push import folder_of, origin_of, rolled_back, versions
from fullpass.pipeline.registry.retention.metadata_graph import LIVE, Records, Removal, read_records, remove_records
from fullpass.pipeline.registry.retention.retention_graph import (
    Kept,
    Policy,
    find_kept,
    kept_models,
    kept_runs,
    removal_of,
)
from fullpass.pipeline.registry.retention.unused_files import Needed, NextRun, Unneeded, find_unneeded, place
from fullpass.pipeline.root.check import check_own_root, check_root, seal_metadata
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.root.locks import run_lock
from fullpass.pipeline.running.history import History

_DAY = 24 * 3600.0


@dataclass(frozen=True)
class Freed:
    """The sizes and numbers that a collection removes.

    Attributes:
        sizes: Bytes by kind.
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


@dataclass(frozen=True)
class RemovalPlan:
    """The removals from a root.

    Attributes:
        since: older history entries are removed too, unless they trained a model.
    """

    kept: Kept
    removal: Removal
    unneeded: list[Unneeded]
    history: History
    since: datetime
    links: tuple[str, ...]

    def freed(self) -> Freed:
        """Returns the sizes and numbers of the removals, read from the file system."""
        sizes: dict[str, int] = {}
        counts: dict[str, int] = {}
        for one in self.unneeded:
            counts[one.kind] = counts.get(one.kind, 0) + 1
            for kind, size in one.sizes().items():
                sizes[kind] = sizes.get(kind, 0) + size
        old = self.history.delete_before(self.since, dry_run=True)
        counts |= {"history": old} if old else {}
        removal = self.removal
        records = {
            "artifacts": len(removal.artifacts),
            "executions": len(removal.executions),
            "runs": len(removal.runs),
        }
        kept = {"runs": len(self.kept.runs), "models": len(self.kept.models)}
        return Freed(sizes, counts, records, kept, self.links)


def collect(root: Path, target: Path, policy: Policy, next_run: NextRun, *, dry_run: bool = False) -> Freed:
    """Removes the files and records that no kept run, model or window needs; returns the sizes and numbers.

    Args:
        root: The pipeline root.
        target: The folder of its pushed models. All of them are kept, including those put aside.
        policy: The runs to keep.
        next_run: The spans and files that the next run reuses.
        dry_run: Change nothing.

    Raises:
        UserError: A run holds the root, or the metadata has another schema version.
    """
    check_own_root(root)
    if dry_run:
        check_root(root)
        return plan(root, target, policy, next_run).freed()
    with run_lock(root, what="fullpass gc"):
        check_root(root)
        found = plan(root, target, policy, next_run)
        freed = found.freed()
        if not found.removal.empty:
            remove_records(RootLayout(root).metadata, found.removal)
            seal_metadata(root)
        for one in found.unneeded:
            link_safe_files.remove(one.path)
        found.history.delete_before(found.since)
    return freed


def plan(root: Path, target: Path, policy: Policy, next_run: NextRun) -> RemovalPlan:
    """Returns the removals of `collect`."""
    now, root = time.time(), root.resolve()
    records = read_records(RootLayout(root).metadata)
    folders = _folders(root, records)
    runs = kept_runs(records, policy, now)
    models = kept_models(records, pushed_models(target))
    kept = find_kept(records, runs, models, next_run.spans)
    needed = Needed(
        folders={folders[artifact] for artifact in kept.files if artifact in folders},
        executions={str(execution) for execution in kept.executions},
        artifacts={str(artifact) for artifact in kept.files},
        runs={run.name for run in runs},
        fingerprints=_fingerprints(records, kept.files),
        since=min([now - policy.days * _DAY, *(run.created for run in runs)]),
        next_run=next_run,
    )
    nodes = {execution.node for execution in records.executions.values()}
    return RemovalPlan(
        kept,
        removal_of(records, kept),
        find_unneeded(root, nodes, needed),
        History(root),
        datetime.fromtimestamp(needed.since, UTC),
        tuple(entry.name for entry in link_safe_files.entries(root) if entry.is_symlink()),
    )


def pushed_models(target: Path) -> set[str]:
    """Returns the addresses of the models in a folder of pushed models, served or put aside."""
    origins = (origin_of(folder_of(target, version)) for version in (*versions(target), *rolled_back(target)))
    return {origin for origin in origins if origin is not None}


def _folders(root: Path, records: Records) -> dict[int, Path]:
    """Returns the folder of every artifact that has files.

    Raises:
        UserError: An artifact lies outside the root, for example after the root was moved. All files of the root would
            seem unneeded.
    """
    folders: dict[int, Path] = {}
    for artifact in records.artifacts.values():
        if artifact.state == LIVE:
            folders[artifact.id] = place(root, Path(artifact.uri))
            if not folders[artifact.id].is_relative_to(root):
                raise UserError(
                    f"{RootLayout(root).metadata} records an artifact at {artifact.uri}, which is outside {root}: "
                    "the root was copied or moved, or is mounted elsewhere. Nothing was removed. Call gc on the "
                    "machine that made the runs."
                )
    return folders


def _fingerprints(records: Records, artifacts: Collection[int]) -> set[str]:
    found = (records.artifacts[artifact].properties.get("fingerprint") for artifact in artifacts)
    return {str(fingerprint) for fingerprint in found if fingerprint}
