"""`fullpass gc`: finds the unneeded records and files of a root, reports their size, and removes them.

It removes the records first, in one transaction, and then the files that no record names. So an interrupted collection
leaves no record without its files, and the next collection removes the rest.
"""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fullpass.base import link_safe_files
from fullpass.components.push.push import folder_of, origin_of, rolled_back, versions
from fullpass.pipeline.registry.retention.kept_records import DAY, Policy, find_kept, removal_of
from fullpass.pipeline.registry.retention.records import read_records, remove_records
from fullpass.pipeline.registry.retention.unneeded_files import NextRun, Unneeded, find_unneeded
from fullpass.pipeline.root.check import check_own_root, check_root
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.root.locks import run_lock
from fullpass.pipeline.running.history import History


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


def collect(root: Path, target: Path, policy: Policy, next_run: NextRun, *, dry_run: bool = False) -> Freed:
    """Removes the files and records that no kept run, model or window needs; returns the sizes and numbers.

    Args:
        target: The folder of its pushed models. All of them are kept, including those put aside.
        next_run: The spans and files that the next run reuses.

    Raises:
        UserError: A run holds the root, the metadata has another schema version, or the root was moved.
    """
    check_own_root(root)
    with nullcontext() if dry_run else run_lock(root, what="fullpass gc"):
        check_root(root)
        now, root = time.time(), root.resolve()
        metadata, history = RootLayout(root).metadata, History(root)
        records = read_records(metadata)
        kept = find_kept(records, policy, _pushed_models(target), next_run.spans, now)
        since = min([now - policy.days * DAY, *(run.created for run in records.runs if run.id in kept.runs)])
        removal = removal_of(records, kept)
        unneeded = find_unneeded(root, records, kept, next_run, since)
        oldest = datetime.fromtimestamp(since, UTC)
        old = history.delete_before(oldest, dry_run=True)
        sizes, counts = _measured(unneeded)
        freed = Freed(
            sizes,
            counts | ({"history": old} if old else {}),
            records={
                "artifacts": len(removal.artifacts),
                "executions": len(removal.executions),
                "runs": len(removal.runs),
            },
            kept={"runs": len(kept.runs), "models": len(kept.models)},
            links=tuple(entry.name for entry in link_safe_files.entries(root) if entry.is_symlink()),
        )
        if not dry_run:
            if any(vars(removal).values()):
                remove_records(metadata, removal)
            for one in unneeded:
                link_safe_files.remove(one.path)
            history.delete_before(oldest)
    return freed


def _pushed_models(target: Path) -> set[str]:
    """Returns the addresses of the models in a folder of pushed models, served or put aside."""
    origins = (origin_of(folder_of(target, version)) for version in (*versions(target), *rolled_back(target)))
    return {origin for origin in origins if origin is not None}


def _measured(unneeded: list[Unneeded]) -> tuple[dict[str, int], dict[str, int]]:
    """Returns bytes by kind, and files and folders by kind."""
    sizes: dict[str, int] = {}
    counts: dict[str, int] = {}
    for one in unneeded:
        counts[one.kind] = counts.get(one.kind, 0) + 1
        for kind, size in one.sizes().items():
            sizes[kind] = sizes.get(kind, 0) + size
    return sizes, counts
