"""Checksums of the artifacts of nodes. A run that would reuse a damaged artifact computes it again.

A state file per artifact, `<root>/checksums/<id>.json`, lists its files with size, modification time and CRC-32C. A run
compares them before it starts. A file larger than `READ_BYTES` is read only if its size matches and its modification
time does not, because records have their own checksums, which every reader verifies.
"""

import itertools
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_metadata import proto

from fullpass.base import state_file
from fullpass.base.folders import files, remove
from fullpass.base.state_file import READ_BYTES, DamagedState, Seal, damage_of, seal_of
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.running.execution.records import locked_store

_DAMAGED = ".damaged"


@dataclass(frozen=True)
class _File:
    name: str
    bytes: int
    changed_ns: int
    crc32c: int


@dataclass(frozen=True)
class _Checksums:
    uri: str
    files: tuple[_File, ...]


def record_checksums(root: Path, artifacts: Sequence[proto.Artifact]) -> None:
    """Writes the checksums of artifacts that a node has just written and recorded."""
    folder = RootLayout(root).checksums
    folder.mkdir(parents=True, exist_ok=True)
    for artifact in artifacts:
        found = [_of(file, artifact.uri) for file, _ in files(Path(artifact.uri)) if file.is_file()]
        fields = {"uri": artifact.uri, "files": [vars(file) for file in sorted(found, key=lambda file: file.name)]}
        state_file.write(folder / f"{artifact.id}.json", fields)


def discard_damaged(root: Path) -> list[str]:
    """Moves damaged artifacts aside, marks them as deleted so their nodes run again, and returns a message for each.

    Their folders keep another name until the next gc. The caller holds the run lock.
    """
    layout = RootLayout(root)
    if not layout.metadata.is_file() or not layout.checksums.is_dir():
        return []
    said = []
    with locked_store(layout.metadata, writes=True) as store:
        for artifact, why in damaged_artifacts(root, store):
            # The record is changed first: without the folder, TFX's cache considers the artifact missing.
            artifact.state = proto.Artifact.DELETED
            store.put_artifacts([artifact])
            _put_aside(Path(artifact.uri))
            node = Path(artifact.uri).relative_to(root).parts[0]
            said.append(f"{why}. It is put aside, and {node} produces it again.")
    return said


def damaged_artifacts(root: Path, store: Any) -> list[tuple[proto.Artifact, str]]:
    """Returns the live artifacts of a root that differ from the written files, each with its first damage.

    The records of a copied root name the files of the other one, which are not looked at.
    """
    found = []
    for artifact in store.get_artifacts():
        if artifact.state != proto.Artifact.LIVE or not Path(artifact.uri).is_relative_to(root):
            continue
        known = _read(RootLayout(root).checksums / f"{artifact.id}.json")
        if known is not None and known.uri == artifact.uri:
            found += [(artifact, why) for why in itertools.islice(_differences(known), 1)]
    return found


def _put_aside(folder: Path) -> None:
    if folder.exists():
        aside = folder.with_name(f"{folder.name}{_DAMAGED}")
        remove(Path(os.path.realpath(aside.parent), aside.name))
        folder.rename(aside)


def _read(path: Path) -> _Checksums | None:
    """Returns the checksums of an artifact; None if they are unknown, so nothing can be compared."""
    try:
        return state_file.read_as(_Checksums, path, "Its artifact is reused without a comparison.")
    except FileNotFoundError:
        return None
    except DamagedState as error:
        logging.warning("%s", error)
        return None


def _differences(known: _Checksums) -> Iterator[str]:
    for file in known.files:
        path = Path(known.uri, file.name)
        read = file.bytes <= READ_BYTES or (path.exists() and path.stat().st_mtime_ns != file.changed_ns)
        if (damage := damage_of(str(path), Seal(file.bytes, file.crc32c), read=read)) is not None:
            yield damage


def _of(path: Path, uri: str) -> _File:
    seal = seal_of(str(path))
    return _File(str(path.relative_to(uri)), seal.bytes, path.stat().st_mtime_ns, seal.crc32c)
