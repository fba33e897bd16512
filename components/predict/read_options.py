"""Converts options of `fullpass predict` to keys of `data.source`."""

from collections.abc import Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from fullpass.base.errors import UsageError


def read_as_of(
    format_: str | None,
    separator: str | None,
    columns: str | None,
    missing: Sequence[str] | None,
    encoding: str | None,
    others: Sequence[str] | None,
    *,
    header: bool,
) -> dict[str, Any]:
    r"""Returns the keys of `data.source` that the options set.

    Example:
        >>> read_as_of("csv", r"\t", "fare, tips", None, None, ["quoting=false"], header=False)
        {'format': 'csv', 'separator': '\t', 'columns': ('fare', 'tips'), 'quoting': False}

    Args:
        format_: Format of the input.
        separator: One character; a backslash and t stand for a tab.
        columns: Comma-separated names, for a file without a header line.
        missing: Texts that mean missing.
        encoding: Encoding, by Python's name.
        others: KEY=VALUE, with the value in YAML.
        header: Whether the file has a header line; contradicts `columns`.

    Raises:
        UserError: An option is invalid.
    """
    if header and columns is not None:
        raise UsageError("--header reads the names of the columns from the file, --columns gives them; drop one.")
    options = {
        "format": format_,
        "separator": "\t" if separator == r"\t" else separator,
        "columns": None if columns is None else tuple(name.strip() for name in columns.split(",")),
        "missing": None if missing is None else tuple(missing),
        "encoding": encoding,
    }
    read_as: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if header:
        read_as["columns"] = None
    for written in others or ():
        key, equals, value = written.partition("=")
        if not (equals and key.strip()):
            raise UsageError(f"--source {written!r}: expected KEY=VALUE, such as --source quoting=false.")
        try:
            read_as[key.strip()] = YAML(typ="safe", pure=True).load(value)
        except YAMLError as error:
            raise UsageError(f"--source {written!r}: the value is not YAML: {error}") from error
    return read_as
