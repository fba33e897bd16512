"""Determines how `fullpass predict` reads its input: like the training data, except for the caller's changes."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from fullpass.base.errors import UsageError, UserError, did_you_mean
from fullpass.base.files import is_address
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.readers.recognize import look_at
from fullpass.components.ingest.sources.config import BaseSource, FileSource
from fullpass.components.ingest.sources.files import SourceFile, nearby, place_pattern, resolve_path
from fullpass.components.ingest.sources.formats import FILE_FORMATS, TOLD_FORMATS
from fullpass.components.ingest.sources.storage import Found, find, is_folder, suffix_of
from fullpass.preprocessing.values.raw_text import RawText

AS_TRAINED: Mapping[str, Any] = MappingProxyType({})
"""Reading options that change nothing: the keys of `data.source` that differ from those of training."""
_TAB_SUFFIXES = (".tsv", ".tab")
_OF_TEXT = ("strip", "decimal")
_ROWS = re.compile(r'^\s*\[?\s*\{\s*"|\n')
_LONGEST_NAME = 255
"""Longest name of a file on Linux (NAME_MAX); what is longer is no path."""

_BY_SUFFIX = {suffix: name for name, row in TOLD_FORMATS.items() for suffix in row.endings if suffix != ".gz"}


@dataclass(frozen=True)
class InputSource:
    """The reading options of an input. text: rules for reading text as values, as in training."""

    source: FileSource
    text: RawText


def input_source(trained: Mapping[str, Any], path: str, read_as: Mapping[str, Any]) -> InputSource:
    """Returns the reading options of `path`.

    The format is taken from `read_as`, else from the file's name, else from training. An input in the format of
    training is read exactly as in training. For another format, the missing tokens of training are added to the
    defaults of the format, and `strip` and `decimal` of training apply to its texts.

    Example:
        >>> trained = {"format": "csv", "separator": ";", "decimal": ","}
        >>> input_source(trained, "rows.csv", {}).source.separator
        ';'
        >>> input_source(trained, "rows.jsonl", {}).text.decimal
        ','

    Args:
        read_as: Keys of `data.source` that differ from training.

    Raises:
        UserError: The format is unknown, or a key or value of `read_as` is not accepted, such as a second path.
    """
    _refuse_rows(path)
    if "path" in read_as:
        raise UsageError(f"--source path={read_as['path']}: the rows are named already, by {path}; drop it.")
    name = read_as.get("format") or _format_of(path, trained["format"])
    tabs = name == "tsv" or (name == "csv" and suffix_of(path) in _TAB_SUFFIXES)
    name = "csv" if name == "tsv" else name
    if name not in FILE_FORMATS:
        raise UsageError(
            f'{path}: predict does not support the format "{name}".{did_you_mean(name, FILE_FORMATS)} '
            f"Accepted: {', '.join(FILE_FORMATS)}, tsv."
        )
    same = name == trained["format"]
    settings = trained if same else _carried(trained, FILE_FORMATS[name].source)
    changes = {**({"separator": "\t"} if tabs else {}), **read_as, "format": name, "path": path}
    source = source_with(path, {**settings, **changes}, read_as)
    carried = ("strip",) if source.types_numbers else _OF_TEXT
    unset = {key: trained[key] for key in carried if key in trained and key not in read_as and not same}
    return InputSource(source, source.raw_text.model_copy(update=unset))


def source_with(path: str, settings: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """Returns the source of files that `settings` declare.

    Args:
        path: The path as the caller wrote it, for messages.
        given: The settings that the caller gave by options.

    Raises:
        UsageError: A given key is not one of the format, or a value is not accepted.
    """
    name, kind = settings["format"], FILE_FORMATS[settings["format"]].source
    keys = [key for key in kind.model_fields if key not in ("format", "path")]
    for key in (key for key in given if key not in ("format", *keys)):
        raise UsageError(
            f'{path}: is read as {name}, which has no setting "{key}".{did_you_mean(key, keys)} '
            f"Accepted: {', '.join(keys)}, each by its own option or as --source KEY=VALUE."
        )
    try:
        return kind.model_validate(dict(settings))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'source'}: {e['msg']}" for e in error.errors())
        raise UsageError(
            f"{path}: cannot be read as {name}: {wrong}. Accepted: the keys of data.source for {name} "
            "(docs/sources.md), each by its own option or as --source KEY=VALUE."
        ) from error


def _refuse_rows(path: str) -> None:
    """Raises UsageError for rows that are given as text, such as JSON or CSV, in place of a path."""
    too_long = not is_address(path) and max(map(len, path.split("/"))) > _LONGEST_NAME
    if (too_long or _ROWS.search(path)) and not os.path.exists(path):
        raise UsageError(
            f"{path:.60} ...: no path of a file. Write rows that are text to a file and give its path, or give them to "
            "`fullpass.open_model(MODEL).predict` as a list of dicts."
        )


def input_files(source: FileSource, path: str) -> list[SourceFile]:
    """Returns the files of `path`, which is a file, an address, a glob or a folder, sorted by name.

    Raises:
        UserError: There is no such file.
    """
    resolved = _resolve(path)
    if not (is_folder(resolved) if source.reads_folders else _found(path, source.endings)):
        endings = ", ".join(source.endings) or "any name"
        wanted = "a folder of files" if source.reads_folders else "a file, or a folder of files"
        hint = nearby(resolved, path)
        raise UsageError(f"{path}: no such file.{hint} Expected {wanted} that end in {endings}.")
    return [replace(file, version="", state="") for file in find_inputs(source, _resolve)]


def _resolve(path: str) -> str:
    return resolve_path(path, Path.cwd())


def _found(path: str, endings: Sequence[str] = ()) -> list[Found]:
    folder, pattern = place_pattern(path, _resolve)
    return find(pattern, endings, folder=folder)


def _format_of(path: str, trained: str) -> str:
    """Returns the format of training if the input can have it, else that of the input's content or name."""
    of_training, suffix = FILE_FORMATS.get(trained), suffix_of(path)
    suits = of_training is not None and (suffix in of_training.endings or suffix not in _BY_SUFFIX)
    if suits and trained not in TOLD_FORMATS:
        return trained
    file = next((file for file in _found(path) if file.size), None)
    content = look_at(file.path) if file else None
    if content and content.other:
        raise UserError(f"{path} is {content.other}.")
    if content and content.format:
        return content.format
    if suits:
        return trained
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    raise UsageError(
        f"{path}: cannot tell the format from {suffix or 'a name without a suffix'!r}. "
        f"Name it {', '.join(_BY_SUFFIX)}, or give --format."
    )


def _carried(trained: Mapping[str, Any], kind: type[BaseSource]) -> dict[str, Any]:
    """Returns the settings of training that apply to a source of another format."""
    usual = kind.model_fields["missing"].default
    carried = {key: trained[key] for key in _OF_TEXT if key in trained and key in kind.model_fields}
    missing = tuple(dict.fromkeys([*usual, *trained.get("missing", ())]))
    return {**carried, "missing": missing, "missing_in": trained.get("missing_in", {})}
