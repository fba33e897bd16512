"""Exports a model for LiteRT or ONNX Runtime, compared on given rows or on the eval split of its run."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.components.portable.export_portable import PortableComparison, export_portable
from fullpass.components.portable.targets import Portable
from fullpass.components.predict.exported import Exported
from fullpass.components.predict.input_rows import InputRows
from fullpass.components.predict.input_source import input_files, input_source
from fullpass.pipeline.registry.compared_model import find_model
from fullpass.pipeline.registry.score_models import records_of
from fullpass.trainer.input.raw_examples import dense_columns


def write_portable(model: Exported, to: Portable, out: Path, rows: str | None) -> PortableComparison:
    """Writes a model into a new folder, if it answers like the SavedModel.

    Args:
        rows: File, folder or glob of raw rows, as for `fullpass predict`; None takes the eval split of the run that
            made the model.

    Raises:
        UserError: As `export_portable`; or the rows of the run are not on this machine any more.
    """
    return export_portable(model, to, out, _eval_rows(model) if rows is None else _given_rows(model, rows))


def _given_rows(model: Exported, path: str) -> Iterator[Mapping[str, np.ndarray]]:
    how = input_source(model.training.source, path, {})
    yield from (batch.inputs for batch in InputRows(input_files(how.source, path), how, model.columns))


def _eval_rows(model: Exported) -> Iterator[Mapping[str, np.ndarray]]:
    files = find_model(str(model.directory), Path()).eval_files
    if not files:
        raise UserError(f"{model.directory}: the eval rows of its run are not on this machine. Give rows: --rows FILE.")
    for records in records_of(files):
        columns = dense_columns(tf.constant(records), model.columns)
        yield {name: value.numpy() for name, value in columns.items()}
