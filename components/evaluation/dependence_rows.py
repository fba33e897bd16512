"""Computes the partial dependence of an export, by scoring eval rows with replaced raw columns."""

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.components.evaluation.column_points import Rows
from fullpass.components.evaluation.column_readers import column_readers, most_important
from fullpass.components.evaluation.dependence_file import Dependence
from fullpass.components.evaluation.partial_dependence import MOST_COLUMNS, Predict, measure_dependence
from fullpass.components.evaluation.score_rows import load_export
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.raw_columns import RawColumn, serving_columns
from fullpass.preprocessing.values.byte_batches import gather
from fullpass.trainer.export.signature_names import SERVING_RAW
from fullpass.trainer.export.signatures import column_keys
from fullpass.trainer.input.raw_tensors import DTYPES, to_dense, to_request
from fullpass.trainer.input.record_batches import records

_MOST_FILES = 32
_ROWS, _BYTES = 2000, 64 << 20


def dependence_of_export(
    export: str,
    files: Sequence[str],
    rows: int,
    config: PreprocessingConfig,
    importance: Sequence[Mapping[str, Any]],
) -> Dependence | None:
    """Returns the partial dependence of an export's scores on its most important raw columns; None if there are none.

    Args:
        export: The folder of the SavedModel.
        files: Raw TFRecord files.
        rows: Approximate number of rows in the files.
        config: Features and label.
        importance: Feature importances from `training.json`.
    """
    columns = serving_columns(config)
    shown = most_important(column_readers(config), importance, MOST_COLUMNS)
    sampled = sample_records(files, rows)
    if not (shown and sampled):
        return None
    spec = {name: tf.io.VarLenFeature(DTYPES[column.type]) for name, column in columns.items()}
    parsed = tf.io.parse_example(tf.constant(sampled), spec)
    dense = {name: to_dense(parsed[name], column).numpy() for name, column in columns.items()}
    return measure_dependence(_predict(export, columns), dense, shown)


def sample_records(files: Sequence[str], rows: int) -> list[bytes]:
    """Returns up to 2,000 serialized rows, evenly from some files, always the same; fewer of large ones."""
    order = np.random.default_rng(1).permutation(len(files))[:_MOST_FILES]
    every = max(1, rows * len(order) // max(len(files), 1) // _ROWS)
    read = chain.from_iterable(islice(records(files[i]), 0, None, every) for i in order)
    return next(gather(read, len, rows=_ROWS, most_bytes=_BYTES), [])


def _predict(export: str, columns: Mapping[str, RawColumn]) -> Predict:
    loaded = load_export(export)
    keys = column_keys(tuple(columns))

    def predict(rows: Rows) -> Mapping[str, np.ndarray]:
        request = to_request(rows, columns, keys)
        return {name: value.numpy() for name, value in loaded.signatures[SERVING_RAW](**request).items()}

    return predict
