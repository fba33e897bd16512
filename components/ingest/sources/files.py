"""Finds the inputs of a source, and computes a fingerprint that changes when they change."""

import hashlib
import importlib.util
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from fullpass.base.errors import UserError, did_you_mean
from fullpass.base.files import is_address, local_path
from fullpass.components.ingest.sources.config import Paths
from fullpass.components.ingest.sources.storage import Found, digest_of, find, is_folder

_PACKAGE = "package:"
Resolve = Callable[[str], str]


@dataclass(frozen=True)
class SourceFile:
    """One file, folder of images, query or function to read.

    Attributes:
        path: The path of the file, or, for other sources, the query or function; also used in messages.
        split: The split of all its rows, or None if each row is assigned to a split.
        version: Text that changes when the data changes.
        address: Location, if it is not `path`: the URL of a database or the folder of a dataset. Or another input of
            the reader: the path of the message descriptors, or the folders that a manifest may use, one per line.
        rest: Whether rows without a span belong to the current span.
        state: Size and version of the file, or of all files of the folder, as `storage.state_of` returns them; it is
            compared after reading. Empty if unknown.
    """

    path: str
    split: str | None
    size: int
    version: str
    address: str = ""
    rest: bool = False
    state: str = ""


def resolve_path(path: str, directory: Path) -> str:
    """Returns an absolute path, pattern or address.

    `package:NAME/PATH` is found in the installed package without importing it; other relative paths start at
    `directory`.

    Raises:
        UserError: The package is not installed.
    """
    if path.startswith(_PACKAGE):
        package, _, inside = path.removeprefix(_PACKAGE).partition("/")
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise UserError(f"{path}: the Python package {package!r} is not installed. Install it, or give a path.")
        return str(Path(spec.submodule_search_locations[0]) / inside)
    if is_address(path):
        return local_path(path)
    return str((directory / path).absolute())


def place_pattern(written: str, resolve: Resolve) -> tuple[str, str]:
    """Returns the folder at which a relative path or pattern starts, and the rest; only the rest may contain a pattern.

    Example:
        >>> place_pattern("day-{SPAN}/*.csv", lambda path: resolve_path(path, Path("/data/[new]")))
        ('/data/[new]/', 'day-{SPAN}/*.csv')
    """
    resolved = resolve(written)
    if is_address(written) or PurePath(written).is_absolute():
        return "", resolved
    folder = f"{resolve(written.partition('/')[0] if written.startswith(_PACKAGE) else '.')}/"
    return (folder, resolved.removeprefix(folder)) if resolved.startswith(folder) else ("", resolved)


def find_files(paths: Paths, resolve: Resolve, *, endings: Sequence[str] = ()) -> tuple[SourceFile, ...]:
    """Returns the files of `paths`, with patterns and folders expanded, in sorted order per entry.

    Raises:
        UserError: An entry matches no file, is a folder without any, or two entries match the same file.
    """
    files: dict[str, SourceFile] = {}
    for split, written in inputs_by_split(paths):
        for file in _matches(written, *place_pattern(written, resolve), endings):
            real = file.path if is_address(file.path) else os.path.realpath(file.path)
            if real in files:
                other = "" if files[real].path == file.path else f", also as {files[real].path}, which is the same file"
                raise UserError(f"data.source.path: {file.path} is named twice{other}. Every file must be read once.")
            files[real] = SourceFile(file.path, split, file.size, file.version, state=file.state)
    return tuple(files.values())


def fingerprint(files: Sequence[SourceFile]) -> str:
    """Returns 16 hex digits that change when a file is added, removed, resized or rewritten."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(repr((file.path, file.split, file.size, file.version, file.address)).encode())
    return digest.hexdigest()[:16]


def inputs_by_split(per_split: Any) -> Iterator[tuple[str | None, str]]:
    """Yields pairs of a split and a path, query or function of a source; the split is None if none is given."""
    if isinstance(per_split, Mapping):
        for split, entry in per_split.items():
            for pattern in (entry,) if isinstance(entry, str) else entry:
                yield split, pattern
    else:
        for pattern in (per_split,) if isinstance(per_split, str) else per_split:
            yield None, pattern


def _matches(written: str, folder: str, pattern: str, endings: Sequence[str]) -> list[Found]:
    matches = find(pattern, endings, folder=folder)
    if matches:
        return matches
    pattern = folder + pattern
    if not is_folder(pattern):
        what = f"no file.{nearby(pattern, written)}"
    elif endings:
        what = f"a folder without files that end in {', '.join(endings)}."
    else:
        what = "a folder; add a pattern such as /*.csv."
    raise UserError(f"data.source.path: {written!r} is {what} Looked for: {pattern}.")


def nearby(pattern: str, written: str = "") -> str:
    """Returns a hint at a path that matches no file: what is there, brackets in its name, or a file of a similar name.

    Example:
        >>> nearby("/data/trips[1]/*.csv", "trips[1]/*.csv")
        ' [1] stands for one of the characters in the brackets; for this name itself write trips[[]1]/*.csv.'

    Args:
        written: The path as it was given, if it may be a pattern.
    """
    brackets = None if "[[]" in written else re.search(r"\[[^\]]+\]", written)
    if brackets:
        itself = written.replace("[", "[[]")
        return f" {brackets[0]} stands for one of the characters in the brackets; for this name itself write {itself}."
    path = Path(pattern)
    if os.path.exists(path) and not path.is_dir() and not path.is_file():
        return " It is a pipe or a device, which can be read only once. Write its rows to a file."
    if path.is_symlink():
        return f" It is a link to {os.readlink(path)}, which does not exist."
    return did_you_mean(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""


def find_folders(paths: Paths, resolve: Resolve, endings: Sequence[str]) -> tuple[SourceFile, ...]:
    """Returns folders that are read as a whole: the files in them with one of `endings`.

    Raises:
        UserError: There is no such folder, or no file in it.
    """
    folders = []
    for split, written in inputs_by_split(paths):
        folder = resolve(written)
        if not is_folder(folder):
            raise UserError(
                f"data.source.path: {written!r} is no folder. Give the folder that holds one folder of files per "
                f"class. Looked for: {folder}."
            )
        files = _matches(written, "", folder, endings)
        digest = digest_of(files)
        folders.append(SourceFile(folder, split, sum(file.size for file in files), digest, state=digest))
    return tuple(folders)


def unknown_version() -> str:
    """Returns a new version at each call: a source whose changes cannot be detected is read again by every run."""
    return f"looked at {time.time_ns()}"
