"""The arguments and options that several commands take, and what their values mean."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from typer import Argument, BadParameter, Option

from fullpass.base.errors import UsageError, did_you_mean

_EXAMPLES = {"--source": "quoting=false", "--beam": "parallelism=4"}


def one_of(kind: str, literal: Any) -> dict[str, Any]:
    """Returns the arguments of an `Option` that accepts a value of a `Literal`; the shell completes it.

    Args:
        kind: What a value is, in the message about another.
    """
    names = get_args(literal)

    def parse(name: str) -> str:
        if name not in names:
            raise BadParameter(f'"{name}" is no {kind}.{did_you_mean(name, names)} Accepted: {", ".join(names)}.')
        return name

    def complete(start: str) -> list[str]:
        return [name for name in names if name.startswith(start)]

    return {"parser": parse, "metavar": "|".join(names), "autocompletion": complete}


USUAL = Path("pipeline.yaml")
"""The YAML that a command takes if none is given."""
File = Annotated[Path, Argument(metavar="FILE", help="The pipeline YAML.")]
NeededFile = Annotated[Path, Argument(metavar="FILE", help="The pipeline YAML.", show_default=False)]
NamedFile = Annotated[Path, Option("--file", "-f", metavar="FILE", help="The pipeline YAML.")]
Target = Annotated[
    Path, Argument(metavar="FILE|DIR", help="The pipeline YAML, or the folder that models are pushed to.")
]
Model = Annotated[
    Path, Argument(metavar="MODEL", help="A model's folder, the folder models are pushed to, or the YAML.")
]
Root = Annotated[Path | None, Option(help="Folder of the runs, instead of root of the YAML.")]
RunRoot = Annotated[Path | None, Option(help="Folder of artifacts, metadata and logs, instead of root of the YAML.")]
Span = Annotated[
    str | None,
    Option(
        metavar="SPAN",
        help="The newest span to train on, as a date (2013-01-05) or a number, or A:B for an explicit window.",
        show_default="latest",
    ),
]
Page = Annotated[Path | None, Option(metavar="FILE", help="Also write an HTML page.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]


def paths_by_name(option: str, written: Sequence[str] | None) -> dict[str, str]:
    """Returns name -> path of an option that is given as NAME=PATH.

    Raises:
        UsageError: A value is not NAME=PATH.
    """
    pairs = {one: one.partition("=") for one in written or ()}
    for one, (name, _, path) in pairs.items():
        if not (name and path):
            raise UsageError(f"{option} {one!r}: expected NAME=PATH, such as {option} weather=weather.csv.")
    return {name: path for name, _, path in pairs.values()}


def key_values(option: str, given: Sequence[str]) -> dict[str, Any]:
    """Returns the mapping that KEY=VALUE arguments of an option give, with the values in YAML.

    Raises:
        UsageError: An argument has no key, or its value is not YAML.
    """
    found: dict[str, Any] = {}
    for written in given:
        key, equals, value = written.partition("=")
        if not (equals and key.strip()):
            raise UsageError(f"{option} {written!r}: expected KEY=VALUE, such as {option} {_EXAMPLES[option]}.")
        try:
            found[key.strip()] = YAML(typ="safe", pure=True).load(value)
        except YAMLError as error:
            raise UsageError(f"{option} {written!r}: the value is not YAML: {error}") from error
    return found


def read_as_of(
    format_: Annotated[
        str | None,
        Option(
            "--format",
            metavar="FORMAT",
            help="Format of the rows: csv, tsv, jsonl, parquet ...",
            show_default="by name",
        ),
    ] = None,
    separator: Annotated[str | None, Option(metavar="CHARACTER", help="Separator of the cells of a CSV file.")] = None,
    columns: Annotated[
        str | None, Option(metavar="A,B,...", help="Column names of a CSV file that has no header line.")
    ] = None,
    header: Annotated[
        bool, Option("--header", help="The CSV file has a header line, although those of training had none.")
    ] = False,
    missing: Annotated[
        list[str] | None,
        Option(metavar="TEXT", help="Text that means missing, instead of the texts of training; repeatable."),
    ] = None,
    encoding: Annotated[str | None, Option(help="Encoding of a CSV or text file, such as latin-1.")] = None,
    source: Annotated[
        list[str] | None,
        Option(metavar="KEY=VALUE", help="Any other key of data.source, with its value in YAML; repeatable."),
    ] = None,
) -> dict[str, Any]:
    r"""Returns the keys of `data.source` that options set, by which rows are read otherwise than in training.

    Example:
        >>> read_as_of("csv", r"\t", "fare, tips", source=["quoting=false"])
        {'format': 'csv', 'separator': '\t', 'columns': ('fare', 'tips'), 'quoting': False}

    Args:
        separator: One character; a backslash and t stand for a tab.

    Raises:
        UsageError: An option is invalid.
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
    return read_as | key_values("--source", source or ())


def reads_rows(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command with the options of `read_as_of` in place of its parameter `read_as`."""
    reading = inspect.signature(read_as_of).parameters
    own = inspect.signature(command).parameters.values()
    shown = [one for given in own for one in (reading.values() if given.name == "read_as" else [given])]

    @wraps(command)
    def with_options(**given: Any) -> None:
        read_as = read_as_of(**{name: given.pop(name) for name in reading})
        command(**given, read_as=read_as)

    with_options.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in shown}
    return with_options
