"""The commands `fullpass compare` and `fullpass evaluate`, which measure models on given rows."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from fullpass.base.json_text import to_json_text
from fullpass.components.ingest.readers.crashes import continue_in_fork
from fullpass.components.predict.input_source import read_as_of
from fullpass.pipeline import read_options
from fullpass.pipeline.printing import console, print_data, print_text
from fullpass.pipeline.startup import large_imports, noise_to, without_keras

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fullpass.pipeline.registry.shown_page import ShownPage

Shown = TypeVar("Shown", bound="ShownPage")
_File = Annotated[
    Path, typer.Option("--file", "-f", metavar="FILE|DIR", help="The YAML, or folder of models, of ids and numbers.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Page = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write an HTML page.")]
_USUAL = Path("pipeline.yaml")


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A run's id, a version, `latest`, a folder, or a YAML.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same, of any root.")],
    file: _File = _USUAL,
    data: Annotated[
        str | None,
        typer.Option(metavar="ROWS", help="Labelled rows to measure both on, or a YAML that names them."),
    ] = None,
    page: _Page = None,
    as_json: _Json = False,
    format_: read_options.Format = None,
    separator: read_options.Separator = None,
    columns: read_options.Columns = None,
    header: read_options.Header = False,
    missing: read_options.Missing = None,
    encoding: read_options.Encoding = None,
    source: read_options.Others = None,
) -> None:
    """Compare two models: YAMLs, features and data, and metrics and slices on the same rows with paired intervals."""
    read_as = read_as_of(format_, separator, columns, missing, encoding, source, header=header)
    continue_in_fork()
    without_keras()
    from fullpass.pipeline.registry import compare as comparing

    with noise_to(Path(os.devnull)), large_imports():
        compared = comparing.compare_models(a, b, file, data, read_as)
    _give(compared, comparing.shown, page, as_json=as_json)


def evaluate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A version, `latest`, a run's id, a folder, or a YAML.")
    ],
    rows: Annotated[
        str, typer.Argument(metavar="ROWS", help="Labelled rows: a file, folder, glob or address; or a YAML.")
    ],
    file: _File = _USUAL,
    page: _Page = None,
    as_json: _Json = False,
    format_: read_options.Format = None,
    separator: read_options.Separator = None,
    columns: read_options.Columns = None,
    header: read_options.Header = False,
    missing: read_options.Missing = None,
    encoding: read_options.Encoding = None,
    source: read_options.Others = None,
) -> None:
    """Measure a model on labelled rows, with the metrics, intervals and slices of the Evaluator."""
    read_as = read_as_of(format_, separator, columns, missing, encoding, source, header=header)
    continue_in_fork()
    without_keras()
    from fullpass.pipeline.registry import evaluate as evaluating

    with noise_to(Path(os.devnull)), large_imports():
        found = evaluating.evaluate_model(model, rows, file, read_as)
    _give(found, evaluating.shown, page, as_json=as_json)


def _give(found: Shown, shown: Callable[[Shown], "RenderableType"], page: Path | None, *, as_json: bool) -> None:
    """Writes the page of a result, if one is named, and prints the result as tables or as JSON."""
    if page is not None:
        found.write(page)
    if as_json:
        print_data(to_json_text(found.record(), indent=2))
        return
    console().print(shown(found))
    if page is not None:
        print_text(f"Page: {page}")
