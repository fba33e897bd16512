"""The command `fullpass export`, and the rows on which it compares what it writes."""

import glob
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fullpass.base.errors import UserError
from fullpass.components.push.push import origin_of
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.registry.locate_model import pushed_to
from fullpass.pipeline.root.layout import metadata_above
from fullpass.pipeline.startup import large_imports, noise_to

if TYPE_CHECKING:
    import numpy as np

    from fullpass.components.predict.predict import Exported

_ROWS = 1024


def export(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model's folder, the folder models are pushed to, or the YAML.")
    ],
    to: Annotated[Literal["litert", "onnx"], typer.Option("--to", help="The format.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write; it must not exist.")],
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="INPUT", help="Raw rows to compare on, as for predict.", show_default="the eval split of its run"
        ),
    ] = None,
) -> None:
    """Write a model for LiteRT or ONNX Runtime, with its preprocessing, if it answers like the SavedModel."""
    with large_imports(), noise_to(Path(os.devnull)):
        from fullpass.components.portable.export_portable import BOUND, export_portable
        from fullpass.components.predict.predict import load_export

        exported = load_export(pushed_to(model.absolute()))
        batches = _eval_rows(exported) if rows is None else _given_rows(exported, rows)
        found = export_portable(exported, to, out, batches)
    print_text(
        f"{out}: {found.bytes:,} bytes. On {found.rows:,} rows the largest difference from the SavedModel is "
        f"{found.largest:.2g} (up to {BOUND:g} is accepted); {found.changed:,} predictions differ.\n"
        f"A row takes {found.milliseconds[0]:.2f} ms of preprocessing and {found.milliseconds[1]:.2f} ms of network."
    )


def _given_rows(model: "Exported", path: str) -> "Iterator[Mapping[str, np.ndarray]]":
    """Yields the raw columns of a file, as `fullpass predict` reads it."""
    from fullpass.components.predict.input_rows import InputRows
    from fullpass.components.predict.input_source import input_files, input_source

    how = input_source(model.source, path, {})
    yield from (batch.inputs for batch in InputRows(input_files(how.source, path), how, model.columns))


def eval_files(version: Path) -> list[str]:
    """Returns the files of the eval rows of the run that made a pushed version; none if they are not here any more."""
    from fullpass.pipeline.registry.find_lineage import folders_of_examples

    origin = origin_of(version)
    metadata = metadata_above(Path(origin)) if origin else None
    spans = folders_of_examples(metadata, origin) if origin and metadata and metadata.is_file() else []
    return [file for span in spans for file in sorted(glob.glob(f"{glob.escape(span)}/Split-eval/*"))]


def _eval_rows(model: "Exported") -> "Iterator[Mapping[str, np.ndarray]]":
    """Yields the raw columns of the eval split of the run that made a model.

    Raises:
        UserError: The run is not on this machine any more.
    """
    import tensorflow as tf

    from fullpass.trainer.input.raw_examples import dense_columns
    from fullpass.trainer.records.record_files import record_batches

    files = eval_files(model.directory)
    if not files:
        raise UserError(f"{model.directory}: the eval rows of its run are not on this machine. Give rows: --rows FILE.")
    for file in files:
        for records in record_batches(file, rows=_ROWS):
            columns = dense_columns(tf.constant(records), model.columns)
            yield {name: value.numpy() for name, value in columns.items()}
