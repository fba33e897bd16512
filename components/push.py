"""Where models go: numbered versions in one folder, the highest being served; atomic, bounded, reversible.

    serving/1760000000/              a version, named by the second it was pushed in
    serving/1760086400/              the highest: what TF Serving serves, and every client that takes the newest
    serving/rolled_back-1760172800/  put aside by a rollback; no number, so that a server does not see it
    serving/current -> 1760086400    for those who want a path that stays

TF Serving's default policy is to serve the highest of the folders whose names are numbers. So a push and a rollback are
each a rename, and `current` follows: where a crash comes between the two, the next push or rollback puts it right.
"""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from preprocessing.errors import UserError

_ROLLED_BACK = "rolled_back-"
_PENDING = ".pending-"
_REMOVED = ".removed-"
_LOCK = ".lock"
CURRENT = "current"
"""Link to the served version."""
ORIGIN = Path("assets.extra") / "origin.json"
"""In every pushed version: which model it is a copy of."""
DESCRIPTION = Path("assets.extra") / "fullpass.json"
"""In every export: what it takes and gives, and under LINEAGE what made it."""
LINEAGE = "lineage"


@dataclass(frozen=True)
class Push:
    """What a push did. version: folder name. created: False if this model was there already. removed: versions."""

    version: int
    created: bool
    removed: tuple[int, ...]


def versions(target: Path) -> list[int]:
    """Returns the versions a model server sees, oldest first."""
    if not target.is_dir():
        return []
    return sorted(int(entry.name) for entry in target.iterdir() if entry.name.isdigit() and entry.is_dir())


def rolled_back(target: Path) -> list[int]:
    """Returns the versions taken out of service by `rollback`, oldest first."""
    if not target.is_dir():
        return []
    return sorted(int(e.name.removeprefix(_ROLLED_BACK)) for e in target.glob(f"{_ROLLED_BACK}*"))


def rolled_back_origins(target: Path) -> set[str]:
    """Returns the addresses of the models whose versions were taken out of service by `rollback`."""
    origins = (origin_of(folder_of(target, version)) for version in rolled_back(target))
    return {origin for origin in origins if origin is not None}


def served_version(target: Path) -> int | None:
    """Returns the version that a model server watching `target` serves: the highest."""
    present = versions(target)
    return present[-1] if present else None


def push(model: Path, target: Path, *, keep: int, origin: str, lineage: Mapping[str, Any] | None = None) -> Push:
    """Copies a SavedModel into `target` as a new version, by its time in seconds, and drops old versions.

    A reader never sees half a model: it is copied under a hidden name and renamed. A model that was pushed before
    (same `origin`), even if it has been rolled back since, is not pushed again.

    Args:
        model: folder with the SavedModel.
        target: folder that a model server watches.
        keep: versions to keep, the new one included.
        origin: what identifies the model, its artifact's address.
        lineage: what made the model (components/lineage.py), for its `fullpass.json`.
    """
    target.mkdir(parents=True, exist_ok=True)
    with _changing(target):
        for version in versions(target) + rolled_back(target):
            if origin_of(folder_of(target, version)) == origin:
                return Push(version, created=False, removed=())
        version = max(int(time.time()), *(v + 1 for v in versions(target) + rolled_back(target)), 1)
        pending = target / f"{_PENDING}{version}"
        shutil.copytree(model, pending)
        (pending / ORIGIN).parent.mkdir(exist_ok=True)
        (pending / ORIGIN).write_text(json.dumps({"model": origin, "version": version}))
        if lineage is not None:
            said = description(pending) | {LINEAGE: dict(lineage)}
            (pending / DESCRIPTION).write_text(json.dumps(said, indent=2), encoding="utf-8")
        pending.rename(target / str(version))
        return Push(version, created=True, removed=_drop_old(target, keep))


def _drop_old(target: Path, keep: int) -> tuple[int, ...]:
    """Removes all but the newest versions, and what was put aside before the oldest of these; returns what it was."""
    present = versions(target)
    oldest = present[-keep:][0]
    old = [version for version in [*present, *rolled_back(target)] if version < oldest]
    for version in old:
        hidden = target / f"{_REMOVED}{version}"
        folder_of(target, version).rename(hidden)
        shutil.rmtree(hidden)
    return tuple(sorted(old))


def folder_of(target: Path, version: int) -> Path:
    """Returns the folder of a version, served or put aside."""
    served = target / str(version)
    return served if served.is_dir() else target / f"{_ROLLED_BACK}{version}"


def description(export: Path) -> dict[str, Any]:
    """Returns what an export says of itself; nothing where it does not."""
    file = export / DESCRIPTION
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def origin_of(version: Path) -> str | None:
    """Returns the address of the model that the folder of a version is a copy of; None if it does not say."""
    file = version / ORIGIN
    return json.loads(file.read_text(encoding="utf-8"))["model"] if file.is_file() else None


@contextlib.contextmanager
def _changing(target: Path) -> Iterator[None]:
    """Keeps other pushes and rollbacks out, clears away what those that were killed left, and sets `current`."""
    with open(target / _LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in (_PENDING, _REMOVED):
            for left in target.glob(f"{name}*"):
                shutil.rmtree(left)
        try:
            yield
        finally:
            _point(target)


def _point(target: Path) -> None:
    """Makes `current` the served version; file systems without links do without."""
    served = served_version(target)
    link, pending = target / CURRENT, target / f".{CURRENT}"
    if served is None:
        link.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError):
        pending.unlink(missing_ok=True)
        pending.symlink_to(str(served))
        os.replace(pending, link)


def rollback(target: Path, to: int | None = None) -> int:
    """Makes an earlier version the served one; returns it.

    Newer versions are renamed, not deleted, so `to` can also bring one of them back.

    Args:
        target: folder that a model server watches.
        to: version to serve; None takes the one before the served one.

    Raises:
        UserError: There is no such version.
    """
    if not target.is_dir():
        raise UserError(f"{target}: no such folder; nothing has been pushed there.")
    with _changing(target):
        present, away = versions(target), rolled_back(target)
        if to is None:
            if len(present) < 2:
                raise UserError(f"{target}: no earlier version to go back to. Versions: {_listed(present, away)}.")
            to = present[-2]
        if to not in present and to not in away:
            raise UserError(f"{target}: no version {to}. Versions: {_listed(present, away)}.")
        if to in away:
            (target / f"{_ROLLED_BACK}{to}").rename(target / str(to))
        # The served one goes last: a server that looks meanwhile sees the old version or the wanted one, no other.
        for newer in (v for v in present if v > to):
            (target / str(newer)).rename(target / f"{_ROLLED_BACK}{newer}")
        return to


def _listed(present: list[int], away: list[int]) -> str:
    listed = [str(v) for v in present] + [f"{v} (rolled back)" for v in away]
    return ", ".join(listed) or "none"
