"""Computes the partial dependence of an export, by scoring eval rows with replaced raw columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.components.evaluation.column_points import Rows
from fullpass.components.evaluation.column_readers import column_readers, most_important
from fullpass.components.evaluation.dependence_file import Dependence
from fullpass.components.evaluation.partial_dependence import MOST_COLUMNS, Predict, measure_dependence
from fullpass.components.evaluation.score_rows import load_export
from fullpass.preprocessing.columns.raw_columns import RawColumn, serving_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.export.export_files import SERVING_RAW
from fullpass.trainer.export.signatures import column_keys
from fullpass.trainer.input.raw_examples import dense_columns
from fullpass.trainer.input.raw_tensors import to_request


def dependence_of_export(
    export: str,
    sampled: Sequence[bytes],
    config: PreprocessingConfig,
    importance: Sequence[Mapping[str, Any]],
) -> Dependence | None:
    """Returns the partial dependence of an export's scores on its most important raw columns; None if there are none.

    Args:
        export: The folder of the SavedModel.
        sampled: A sample of the serialized eval rows.
        config: Features and label.
        importance: Feature importances from `training.json`.
    """
    columns = serving_columns(config)
    shown = most_important(column_readers(config), importance, MOST_COLUMNS)
    if not (shown and sampled):
        return None
    dense = {name: value.numpy() for name, value in dense_columns(tf.constant(list(sampled)), columns).items()}
    return measure_dependence(_predict(export, columns), dense, shown)


def _predict(export: str, columns: Mapping[str, RawColumn]) -> Predict:
    loaded = load_export(export)
    keys = column_keys(tuple(columns))

    def predict(rows: Rows) -> Mapping[str, np.ndarray]:
        request = to_request(rows, columns, keys)
        return {name: value.numpy() for name, value in loaded.signatures[SERVING_RAW](**request).items()}

    return predict
