"""Infers the section `data.source` from the data that a user names: files, format, and text dialect."""

import glob
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from pydantic import TypeAdapter

from fullpass.base.errors import UsageError, UserError
from fullpass.base.files import is_address
from fullpass.components.ingest.readers.read_source import columns_of_file, find_inputs
from fullpass.components.ingest.readers.recognize import look_at
from fullpass.components.ingest.readers.tfrecord import payload_type
from fullpass.components.ingest.sources.config import Paths
from fullpass.components.ingest.sources.files import SourceFile, find_files, nearby, resolve_path
from fullpass.components.ingest.sources.formats import TOLD_FORMATS, Source
from fullpass.components.ingest.sources.storage import find, is_compressed, matches, open_raw, suffix_of
from fullpass.components.predict.input_source import source_with
from fullpass.pipeline.authoring.profile.column_profile import counted
from fullpass.pipeline.authoring.profile.dialect import guess_dialect
from fullpass.pipeline.authoring.profile.images import SPLIT_NAMES, image_folders
from fullpass.pipeline.authoring.profile.sheets import sheet_settings
from fullpass.pipeline.authoring.rules import UNCHANGED, rule

_LOOK = 4 << 20
"""Bytes of a file that are looked at: a few megabytes show quotes that do not balance."""
_TAIL = 64 << 10
"""Bytes at the end of a file that are looked at for totals."""
_FORMATS = {name: row for name, row in TOLD_FORMATS.items() if row.proposed_as}
*_FIRST, _LAST = (row.proposed_as for row in _FORMATS.values())
_READ = f"{', '.join(_FIRST)} and {_LAST}"
_SPLIT = re.compile(rf"(?<![a-z])({'|'.join(SPLIT_NAMES)})(?![a-z])")
_NAMED_SPLITS = "the file names give the splits"
_SOURCE: TypeAdapter[Source] = TypeAdapter(Source)


@dataclass(frozen=True)
class FoundSource:
    """The inferred section `data.source`.

    Attributes:
        settings: The section as written in YAML.
        given: The keys that the user gave, which no guess changes.
    """

    settings: Mapping[str, Any]
    why: Mapping[str, str]
    files: tuple[SourceFile, ...]
    given: Collection[str] = ()

    @cached_property
    def source(self) -> Source:
        """The section as the run reads it."""
        return _SOURCE.validate_python(dict(self.settings))

    def changed(self, key: str, value: object, why: str) -> "FoundSource":
        """Returns the source with one more setting and its reason."""
        if key in self.given:
            return self
        return replace(self, settings={**self.settings, key: value}, why={**self.why, key: why})


@dataclass(frozen=True)
class _NamedPaths:
    """The paths that the user named, and the file endings to read if a path is a folder."""

    paths: Paths
    endings: Sequence[str] = ()
    why: str = ""


def infer_source(
    data: str, folder: Path, *, known: Collection[str] = (), given: Mapping[str, Any] | None = None
) -> FoundSource:
    """Returns the source that reads `data`.

    Args:
        data: A file, a folder, a pattern, or package:NAME/PATH, relative to the current directory.
        folder: The folder of the YAML to write; paths are written relative to it.
        known: Known column names. The first line of a CSV file is a header if it holds one of them.
        given: Keys of `data.source` that are not guessed.

    Raises:
        UserError: There is no such file, it is empty, its format cannot be read, or a given key is not one of it.
    """
    given = given or {}
    if not given and (images := _images(data)) is not None:
        paths = _map_paths(images, lambda path: path_from(path, folder))
        settings = {"format": "images", "path": paths}
        files = find_inputs(_SOURCE.validate_python(settings), lambda path: resolve_path(path, folder))
        return FoundSource(settings, {"path": "a folder of images for each class"}, files)
    named = _named(data)
    paths = _map_paths(named.paths, lambda path: path_from(path, folder))
    files = find_files(paths, lambda path: resolve_path(path, folder), endings=named.endings)
    first = next((file for file in files if file.size), None)
    if first is None:
        raise UserError(f"{data}: {'the file is' if len(files) == 1 else 'all files are'} empty.")
    settings, why = _settings(first, known, given)
    if given:
        source_with(data, {**settings, "path": paths}, given)
    path_why = {"path": named.why} if named.why else {}
    settings = {"format": settings.pop("format"), "path": paths, **settings}
    found = FoundSource(settings, {**path_why, **why}, files, tuple(given))
    return _without_unlabelled(found, known) if isinstance(paths, Mapping) else found


@rule("splits without a label", otherwise=UNCHANGED)
def _without_unlabelled(found: FoundSource, known: Collection[str]) -> FoundSource:
    """Returns the source without splits that lack columns of train, such as unlabeled data for predictions.

    If the user names columns of the label, only these columns count.
    """
    columns = {file.split: set(columns_of_file(file, found.source) or ()) for file in found.files if file.size}
    train = columns.pop("train", set())
    lacking = {split: train - has for split, has in columns.items()}
    dropped = {split: gone for split, gone in lacking.items() if (gone & set(known) if train & set(known) else gone)}
    if not dropped:
        return found
    paths: Mapping[str, Any] = found.settings["path"]
    left = {split: path for split, path in paths.items() if split not in dropped}
    path = left if "eval" in left else paths["train"]
    names = ", ".join(str(PurePath(file.path).name) for file in found.files if file.split in dropped)
    gone = ", ".join(sorted(set().union(*dropped.values()))[:4])
    files = tuple(replace(f, split=f.split if "eval" in left else None) for f in found.files if f.split in left)
    why = {**found.why, "path": f"{names} left out: no column {gone}"}
    return replace(found, settings={**found.settings, "path": path}, why=why, files=files)


@rule("folders of images")
def _images(data: str) -> Any:
    """Returns the image folders that `data` names; None if it is no folder, or a folder with tables."""
    if data.startswith("package:") or is_address(data) or not Path(data).is_dir():
        return None
    tables = (file for row in _FORMATS.values() for file in find(data, row.endings))
    return image_folders(Path(data)) if all(suffix_of(file.path) == ".txt" for file in tables) else None


def _settings(
    file: SourceFile, known: Collection[str], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    content = look_at(file.path, _LOOK)
    name = given.get("format") or content.format
    if content.other and not given.get("format"):
        raise UserError(f"{file.path} is {content.other}. `init` reads {_READ}.")
    if name and name not in _FORMATS:
        raise UserError(f"{file.path} is a file of the format {name}. `init` reads {_READ}.")
    if given:
        source_with(file.path, {"format": name or "csv", "path": file.path, **given}, given)
    settings: dict[str, Any] = {}
    why = dict.fromkeys((key for key in given if key != "format"), "given")
    if name == "tfrecord" and payload_type(file.path) != "example":
        settings["payload"] = "sequence_example"
        why = {"payload": "the first record holds feature lists: columns of lists, beside the context features", **why}
    elif name == "excel":
        settings, guessed = sheet_settings(file.path, look=_LOOK, known=known, given=given)
        why = {**guessed, **why}
    elif (name or "csv") == "csv":
        settings, guessed = _csv_settings(file, content.start, whole=content.whole, known=known, given=given)
        why = {**guessed, **why}
    return {"format": name or "csv", **settings, **given}, why


def _csv_settings(
    file: SourceFile, start: bytes, *, whole: bool, known: Collection[str], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    if not start.strip():
        raise UserError(f"{file.path}: the file is empty.")
    dialect = guess_dialect(start, whole=whole, known=known, end=b"" if whole else _end(file), given=given)
    if dialect is None:
        aligned = (
            " Columns aligned by spaces must first be separated by one separator." if b"  " in start[:10_000] else ""
        )
        raise UserError(
            f"{file.path}: no separator (comma, tab, semicolon, bar, blank) gives two columns or more.{aligned} "
            f"`init` reads {_READ}, with a label and at least one feature."
        )
    return dialect.settings, dict(dialect.why)


def _end(file: SourceFile) -> bytes:
    """Returns the last bytes of a file; none of a compressed file, whose end cannot be read alone."""
    if is_compressed(file.path):
        return b""
    with open_raw(file.path) as stream:
        stream.seek(max(file.size - _TAIL, 0) // 2 * 2)  # whole characters of UTF-16
        return stream.read()


def _named(data: str) -> _NamedPaths:
    if data.startswith("package:") or is_address(data):
        return _NamedPaths(data)
    path = Path(data)
    if path.is_dir():
        return _in_folder(path)
    named = [data] if path.is_file() else matches(data)
    if not named:
        hint = nearby(data, data) or ("" if path.parent.is_dir() else f" There is no folder {path.parent} either.")
        raise UsageError(f"{data}: no such file.{hint}")
    by_split = _by_split(named)
    return _NamedPaths(by_split, why=_NAMED_SPLITS) if by_split else _NamedPaths(data)


def _in_folder(folder: Path) -> _NamedPaths:
    """Returns the files with the commonest ending in a folder; an ending that no format has is the last choice."""
    rows = reversed(_FORMATS.items())  # a file of compressed CSV has an ending of TFRecords, too
    files = {file.path: name for name, row in rows for file in find(str(folder), row.endings)}
    files = files or {file.path: "" for file in find(str(folder), ("",))}
    by_ending: dict[str, list[str]] = {}
    for path in files:
        by_ending.setdefault(suffix_of(path), []).append(path)
    if not by_ending:
        raise UserError(f"{folder}: no file in this folder. `init` reads {_READ}.")
    ending = max(by_ending, key=lambda key: (key != ".txt", len(by_ending[key])))
    chosen = by_ending[ending]
    # Competitions put a template of a submission beside train and test.
    by_split = _by_split([path for path in chosen if "submission" not in PurePath(path).name.lower()])
    if by_split:
        return _NamedPaths(by_split, why=_NAMED_SPLITS)
    name = look_at(chosen[0]).format or "csv"
    if len(chosen) == sum(named == name for named in files.values()):
        return _NamedPaths(str(folder), _FORMATS[name].endings, counted(len(chosen), "file"))
    deep = "" if all(PurePath(path).parent == folder for path in chosen) else "**/"
    more = "" if all(path.endswith(ending) for path in chosen) else "*"
    return _NamedPaths(f"{glob.escape(str(folder))}/{deep}*{ending}{more}", why=counted(len(chosen), "file"))


@rule("splits by names of files")
def _by_split(paths: Sequence[str]) -> dict[str, str | tuple[str, ...]] | None:
    """Returns paths per split if the name of every file, or of its folder, contains the split; else None."""
    found: dict[str, list[str]] = {}
    for path in paths:
        file = PurePath(path)
        words = _split_words(file.name) or _split_words(file.parent.name)
        if len(words) != 1:
            return None
        found.setdefault(words.pop(), []).append(path)
    if "eval" not in found and "test" in found:
        found["eval"] = found.pop("test")
    if "train" not in found or "eval" not in found:
        return None
    order = [split for split in ("train", "eval", "test") if split in found]
    return {split: found[split][0] if len(found[split]) == 1 else tuple(found[split]) for split in order}


def _split_words(name: str) -> set[str]:
    return {SPLIT_NAMES[word] for word in _SPLIT.findall(name.lower())}


def _map_paths(paths: Any, change: Callable[[str], str]) -> Any:
    if isinstance(paths, str):
        return change(paths)
    if isinstance(paths, Mapping):
        return {split: _map_paths(entry, change) for split, entry in paths.items()}
    return tuple(change(path) for path in paths)


def path_from(path: str, folder: Path) -> str:
    """Returns a path relative to the YAML's folder, or absolute if that needs more than two `..`."""
    if path.startswith("package:") or is_address(path):
        return path
    absolute = Path(path).absolute()
    for up, above in enumerate([folder.absolute(), *folder.absolute().parents][:3]):
        if above != above.parent and absolute.is_relative_to(above):
            return str(PurePath(*[".."] * up) / absolute.relative_to(above))
    return str(absolute)
