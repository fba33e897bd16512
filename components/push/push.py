"""Pushes models as numbered versions in one folder, whose highest version is served, and rolls them back.

    serving/1760000000/              a version, named by the second of its push
    serving/1760086400/              the highest version, which TF Serving serves
    serving/rolled_back-1760172800/  put aside by a rollback; the name is no number, so a server ignores it
    serving/current -> 1760086400    a link with a fixed name
    serving/.fullpass-models         the pipeline whose models these are; that of another pipeline is refused

TF Serving's default policy is to serve the highest of the folders whose names are numbers. Therefore a push and a
rollback are each a rename, after which `current` is set. After a crash between the two, the next push or rollback sets
it. Whatever changes the folder holds its lock, and changes nothing if another version is served than when it began.
"""

import contextlib
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullpass.base import state_file
from fullpass.base.errors import UserError, listed
from fullpass.base.folders import entries, remove
from fullpass.base.locks import for_reading, holding
from fullpass.base.owner_mark import read_owner, write_owner
from fullpass.base.redact import redact_tree
from fullpass.trainer.export.export_files import DESCRIPTION, ORIGIN, read_description, verify_export

_PENDING = ".pending-"
_REMOVED = ".removed-"
_LOCK = ".lock"
_LOG = logging.getLogger(__name__)
_MARK = "Fullpass pushes the models of one pipeline into this folder, and removes old ones (push.keep)."
_NUMBER = re.compile("[0-9]{1,18}")
_DAMAGED = (
    "Put it back from a copy of the model, or remove the folder of this version: `fullpass run --fresh` trains and "
    "pushes again."
)
ROLLED_BACK = "rolled_back-"
"""Beginning of the name of a folder whose version a rollback put aside."""
OWNER = ".fullpass-models"
"""File that names the pipeline whose models a folder holds."""
CURRENT = "current"
"""Link to the served version."""
LINEAGE = "lineage"
"""Key of `fullpass.json`."""
SERVING = "Format-Serving"
"""Folder of the export in an artifact of TFX's type Model."""


@dataclass(frozen=True)
class _Origin:
    model: str
    version: int
    refresh: str = ""


@dataclass(frozen=True)
class PushResult:
    """The result of a push.

    Attributes:
        created: False if the model had been pushed before.
        removed: The removed old versions.
        served: The version that is served after it.
    """

    version: int
    created: bool
    removed: tuple[int, ...]
    served: int


def served_versions(target: Path) -> list[int]:
    """Returns the versions that a model server sees, oldest first."""
    if not target.is_dir():
        return []
    return sorted(int(entry.name) for entry in target.iterdir() if _NUMBER.fullmatch(entry.name) and entry.is_dir())


def rolled_back(target: Path) -> list[int]:
    """Returns the versions taken out of service by `rollback`, oldest first."""
    if not target.is_dir():
        return []
    named = (entry.name.removeprefix(ROLLED_BACK) for entry in target.iterdir() if entry.name.startswith(ROLLED_BACK))
    return sorted(int(name) for name in named if _NUMBER.fullmatch(name))


def rolled_back_origins(target: Path) -> set[str]:
    """Returns the addresses of the models whose versions were taken out of service by `rollback`."""
    folders = [folder_of(target, version) for version in rolled_back(target)]
    # The rollback of a refreshed version is about its table, not about the model.
    origins = (origin_of(folder) for folder in folders if not refresh_of(folder))
    return {origin for origin in origins if origin is not None}


def served_version(target: Path) -> int | None:
    """Returns the version that a model server watching `target` serves: the highest."""
    present = served_versions(target)
    return present[-1] if present else None


def pushed_origins(target: Path) -> set[str]:
    """Returns the addresses of the models in a folder of pushed models, served or put aside."""
    if not target.is_dir():
        return set()
    with for_reading(target / _LOCK):
        origins = [origin_of(folder) for folder in _folders(target)]
    return {origin for origin in origins if origin is not None}


def _folders(target: Path) -> list[Path]:
    return [folder_of(target, version) for version in served_versions(target) + rolled_back(target)]


def require_owner(target: Path, name: str, *, to_push: bool = False) -> None:
    """Checks that a folder holds the models of one pipeline, because a push replaces and removes versions there.

    The mark of the folder counts; in a folder without one, each version names its pipeline.

    Args:
        name: The name of the pipeline.
        to_push: Whether models of another program are refused, too; without a push they stay as they are.

    Raises:
        UserError: The folder holds models of others.
    """
    mark = target / OWNER
    owner = read_owner(mark)
    folders = _folders(target) if owner is None else []
    owners = {owner, *map(pipeline_of, folders)} - {None, name}
    foreign = [folder.name for folder in folders if to_push and _is_foreign(folder)]
    others = sorted(map(str, owners)) + [f"another program (version {version})" for version in foreign]
    if others:
        other = target.with_name(name) if target.name in others else target / name
        raise UserError(
            f"{target}: the folder of the pushed models of {listed(others)}. Those of the pipeline {name} would "
            f"replace and remove them, and be taken for theirs. Name another folder, such as push: {{to: {other}}}. If "
            f"{name} was renamed, or takes over these models, write the line `pipeline: {name}` into {mark}."
        )


def pipeline_of(version: Path) -> str | None:
    """Returns the name of the pipeline that made a version; None if its description is damaged or names none."""
    with contextlib.suppress(state_file.DamagedState):
        return description(version).get("name")
    return None


def _is_foreign(version: Path) -> bool:
    return not any((version / file).is_file() for file in (ORIGIN, DESCRIPTION))


def push(
    model: Path,
    target: Path,
    *,
    keep: int,
    origin: str,
    refresh: str = "",
    replaces: int | None = None,
    lineage: Mapping[str, Any] | None = None,
) -> PushResult:
    """Copies a SavedModel into `target` as a new version, named by the time in seconds, and removes old versions.

    A reader never sees an incomplete model, because it is copied under a hidden name and then renamed. A model that was
    pushed before (same `origin`), even if it has been rolled back since, is not pushed again unless its copy is
    damaged. Tables that return after others are another version.

    Args:
        keep: Number of versions to keep, including the new one.
        origin: The address of the model's artifact, which identifies it.
        refresh: Digest of the joined tables of a refreshed model; it is another version of the same artifact.
        replaces: The version that must still be the served one; None pushes whatever is served.
        lineage: The lineage to write into `fullpass.json` (components/push/model_lineage.py).

    Raises:
        UserError: The folder holds models of another pipeline, or another version is served than `replaces`.
    """
    target.mkdir(parents=True, exist_ok=True)
    name = description(model).get("name")
    with _locked(target, "a push"):
        if name is not None:
            require_owner(target, name, to_push=True)
        if replaces is not None:
            _check_served(target, replaces)
        known = served_versions(target)[-1:] if refresh else served_versions(target)
        for version in known + rolled_back(target):
            folder = folder_of(target, version)
            if (origin_of(folder), refresh_of(folder)) == (origin, refresh) and damage_of_version(folder) is None:
                return PushResult(version, created=False, removed=(), served=served_version(target) or version)
        version = max(int(time.time()), *(v + 1 for v in served_versions(target) + rolled_back(target)), 1)
        pending = target / f"{_PENDING}{version}"
        shutil.copytree(model, pending)
        (pending / ORIGIN).parent.mkdir(exist_ok=True)
        refreshed = {"refresh": refresh} if refresh else {}
        state_file.write(pending / ORIGIN, {"model": origin, "version": version, **refreshed})
        if lineage is not None:
            described = description(pending) | {LINEAGE: dict(lineage)}
            state_file.write(pending / DESCRIPTION, redact_tree(described), indent=2)
        if name is not None and read_owner(target / OWNER) is None:
            write_owner(target / OWNER, _MARK, name)
        pending.rename(target / str(version))
        return PushResult(version, created=True, removed=_drop_old(target, keep), served=version)


def _drop_old(target: Path, keep: int) -> tuple[int, ...]:
    """Removes all but the `keep` newest versions, and older rolled-back ones; returns the removed versions."""
    present = served_versions(target)
    oldest = present[-keep:][0]
    old = [version for version in [*present, *rolled_back(target)] if version < oldest]
    for version in old:
        hidden = target / f"{_REMOVED}{version}"
        folder_of(target, version).rename(hidden)
        shutil.rmtree(hidden)
    return tuple(sorted(old))


def folder_of(target: Path, version: int) -> Path:
    """Returns the folder of a version, which may have been rolled back."""
    served = target / str(version)
    return served if served.is_dir() else target / f"{ROLLED_BACK}{version}"


def description(export: Path) -> dict[str, Any]:
    """Returns the `fullpass.json` of an export; empty if there is none.

    Raises:
        DamagedState: The file is damaged.
    """
    return read_description(str(export), _DAMAGED) or {}


def damage_of_version(version: Path, *, largest: float = float("inf")) -> str | None:
    """Returns a message about the damage of a version and its repair; None if it is intact.

    Args:
        largest: Only the size is compared for a file with more bytes than this.
    """
    try:
        verify_export(str(version), largest=largest)
    except state_file.DamagedState as error:
        return str(error)
    return None


def origin_of(version: Path) -> str | None:
    """Returns the address of the model from which a version was copied; None if its folder does not name it.

    Without `origin.json`, as in the versions of other programs, the address is read from the lineage of the model.

    Raises:
        DamagedState: The file is damaged.
    """
    try:
        return state_file.read_as(_Origin, version / ORIGIN, _DAMAGED).model
    except FileNotFoundError:
        return (description(version).get(LINEAGE) or {}).get("model")


def refresh_of(version: Path) -> str:
    """Returns the digest of the joined tables of a refreshed version; empty for any other.

    Raises:
        DamagedState: The file is damaged.
    """
    try:
        return state_file.read_as(_Origin, version / ORIGIN, _DAMAGED).refresh
    except FileNotFoundError:
        return ""


@contextlib.contextmanager
def _locked(target: Path, what: str) -> Iterator[None]:
    """Locks out all other changes, removes the leftovers of killed ones, and sets `current` at the end."""
    with holding(target / _LOCK, what=what, tell=_LOG.warning):
        _refuse_strays(target)
        for name in (_PENDING, _REMOVED):
            for left in entries(target.resolve(), f"{name}*"):
                remove(left)
        try:
            yield
        finally:
            _update_current(target)


def _check_served(target: Path, version: int | None) -> None:
    """Checks that the version that was served when a change began is still the served one."""
    now = served_version(target)
    if now != version:
        raise UserError(
            f"{target}: version {now or 'none'} is served by now, and was not when this began: then it was "
            f"{version or 'none'}. Nothing was changed. Look at `fullpass models`, and give the command again."
        )


def _refuse_strays(target: Path) -> None:
    """Raises UserError if the folder contains a numbered folder without a model, which a server takes for a version."""
    for version in served_versions(target):
        folder = target / str(version)
        if not any((folder / file).is_file() for file in ("saved_model.pb", ORIGIN)):
            raise UserError(
                f"{folder} holds no model (saved_model.pb), but a model server treats it as version {version}. Remove "
                "it, or give it a name that is no number."
            )


def _update_current(target: Path) -> None:
    """Makes `current` a link to the served version, except on file systems without links."""
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
    """Makes an earlier version the served one, and returns it.

    Newer versions are renamed, not deleted, so `to` can also bring one of them back.

    Args:
        to: The version to serve; None is the version before the served one.

    Raises:
        UserError: There is no such version, it is damaged, or another version was pushed meanwhile.
    """
    if not target.is_dir():
        raise UserError(f"{target}: no such folder; nothing has been pushed there.")
    before = served_version(target)
    with _locked(target, "fullpass rollback"):
        _check_served(target, before)
        present, put_aside = served_versions(target), rolled_back(target)
        if to is None:
            if len(present) < 2:
                raise UserError(
                    f"{target}: no earlier version to go back to. Versions: {_version_list(present, put_aside)}."
                )
            to = present[-2]
        if to not in present and to not in put_aside:
            raise UserError(f"{target}: no version {to}. Versions: {_version_list(present, put_aside)}.")
        if damaged := damage_of_version(folder_of(target, to)):
            raise state_file.DamagedState(f"version {to} is not served: {damaged}")
        if to in put_aside:
            (target / f"{ROLLED_BACK}{to}").rename(target / str(to))
        # In ascending order, a server that polls meanwhile sees the old version or the wanted one, and no other.
        for newer in (v for v in present if v > to):
            (target / str(newer)).rename(target / f"{ROLLED_BACK}{newer}")
        return to


def _version_list(present: list[int], put_aside: list[int]) -> str:
    listed = [str(v) for v in present] + [f"{v} (rolled back)" for v in put_aside]
    return ", ".join(listed) or "none"
