"""`fullpass gc`: finds what a root does not need, says what it frees, and frees it.

Whatever the moment it is cut short at, what is recorded is there: records go first and at once, then the files that no
record names, of this call or of one before.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from components.push import folder_of, origin_of, rolled_back, versions
from pipeline.execution.locks import run_lock
from pipeline.history import History
from pipeline.retention.keep import Kept, Policy, find_kept, kept_models, kept_runs, removal_of
from pipeline.retention.places import Needed, NextRun, Unneeded, find_unneeded
from pipeline.retention.records import LIVE, Records, Removal, read_records, remove_records
from preprocessing.errors import UserError

METADATA = "metadata.sqlite"
_DAY = 24 * 3600.0


@dataclass(frozen=True)
class Freed:
    """What a collection frees.

    Attributes:
        sizes: bytes by kind.
        counts: files, folders and entries by kind.
        records: how many artifacts, executions and runs are taken out of the metadata, by that word.
        kept: how many runs and models are kept, by that word.
    """

    sizes: dict[str, int]
    counts: dict[str, int]
    records: dict[str, int]
    kept: dict[str, int]


@dataclass(frozen=True)
class Plan:
    """What is removed from a root. since: older entries of the history are, if they tell of no training."""

    kept: Kept
    removal: Removal
    unneeded: list[Unneeded]
    history: History
    since: datetime

    def freed(self) -> Freed:
        """Returns what carrying it out frees; asks the file system."""
        sizes: dict[str, int] = {}
        counts: dict[str, int] = {}
        for one in self.unneeded:
            counts[one.kind] = counts.get(one.kind, 0) + 1
            for kind, size in one.sizes().items():
                sizes[kind] = sizes.get(kind, 0) + size
        old = self.history.forget(self.since, dry_run=True)
        counts |= {"history": old} if old else {}
        removal = self.removal
        records = {
            "artifacts": len(removal.artifacts),
            "executions": len(removal.executions),
            "runs": len(removal.runs),
        }
        return Freed(sizes, counts, records, {"runs": len(self.kept.runs), "models": len(self.kept.models)})


def collect(root: Path, target: Path, policy: Policy, next_run: NextRun, *, dry_run: bool = False) -> Freed:
    """Removes what no kept run, model or window needs; returns what that frees.

    Args:
        root: of the pipeline.
        target: folder of its pushed models. All that lie there, served or put aside, are kept.
        policy: which runs are kept.
        next_run: what it takes over.
        dry_run: change nothing.

    Raises:
        UserError: A run holds the root; or its metadata is of another version.
    """
    if dry_run:
        return plan(root, target, policy, next_run).freed()
    with run_lock(root, what="fullpass gc"):
        found = plan(root, target, policy, next_run)
        freed = found.freed()
        if not found.removal.empty:
            remove_records(root / METADATA, found.removal)
        for one in found.unneeded:
            one.remove()
        found.history.forget(found.since)
    return freed


def plan(root: Path, target: Path, policy: Policy, next_run: NextRun) -> Plan:
    """Returns what `collect` removes."""
    now, root = time.time(), root.resolve()
    records = read_records(root / METADATA)
    _refuse_moved(root, records)
    runs = kept_runs(records, policy, now)
    models = kept_models(records, pushed_models(target))
    kept = find_kept(records, runs, models, next_run.spans)
    needed = Needed(
        folders={records.artifacts[a].folder for a in kept.files if records.artifacts[a].state == LIVE},
        executions=kept.executions,
        runs={run.name for run in runs},
        fingerprints=_fingerprints(records, kept.files),
        since=min([now - policy.days * _DAY, *(run.created for run in runs)]),
        next_run=next_run,
    )
    nodes = {execution.node for execution in records.executions.values()}
    return Plan(
        kept,
        removal_of(records, kept),
        find_unneeded(root, nodes, needed),
        History(root),
        datetime.fromtimestamp(needed.since, UTC),
    )


def pushed_models(target: Path) -> set[str]:
    """Returns the addresses of the models whose copies lie in a folder of pushed models, served or put aside."""
    origins = (origin_of(folder_of(target, version)) for version in (*versions(target), *rolled_back(target)))
    return {origin for origin in origins if origin is not None}


def _refuse_moved(root: Path, records: Records) -> None:
    """Refuses a root whose metadata speaks of another: by that, nothing in this one would be needed."""
    for artifact in records.artifacts.values():
        if artifact.state == LIVE and not artifact.folder.is_relative_to(root):
            raise UserError(
                f"{root / METADATA} says that {artifact.uri} holds an artifact, which is outside {root}: the root was "
                "copied or moved, or is mounted elsewhere. Nothing was removed. Call gc where the runs were made."
            )


def _fingerprints(records: Records, artifacts: Collection[int]) -> set[str]:
    found = (records.artifacts[artifact].properties.get("fingerprint") for artifact in artifacts)
    return {str(fingerprint) for fingerprint in found if fingerprint}
