"""Partial dependence: the mean score of eval rows if a raw column had the same value in all of them.

The effect of a column that interacts with others is averaged over the rows. The model also scores combinations of
values that occur in no row. Source: Friedman, Greedy Function Approximation (2001).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.components.evaluation.column_points import DenseRows, Points, points_of
from fullpass.components.evaluation.column_readers import ColumnReaders, column_readers, most_important
from fullpass.components.evaluation.score_rows import load_export
from fullpass.components.evaluation.shown_files import ColumnDependence, Dependence
from fullpass.preprocessing.columns.raw_columns import RawColumn, serving_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.export.export_files import SERVING_RAW
from fullpass.trainer.export.signatures import column_keys
from fullpass.trainer.input.raw_examples import dense_columns
from fullpass.trainer.input.raw_tensors import to_request

_MOST_COLUMNS = 10
_ROWS, _FEWEST_ROWS, _TIMED_ROWS = 200, 20, 32
_MOST_POINTS = 12
_MOST_CLASSES = 5
_SECONDS = 20.0
_BYTES_ASKED = 64 << 20

Predict = Callable[[DenseRows], Mapping[str, np.ndarray]]
"""Raw columns, dense -> outputs of the model's signature `serving_raw`."""


def dependence_of_export(
    export: str,
    sampled: Sequence[bytes],
    config: PreprocessingConfig,
    importance: Sequence[Mapping[str, Any]],
) -> Dependence | None:
    """Returns the partial dependence of an export's scores on its most important raw columns; None if there are none.

    Args:
        sampled: A sample of the serialized eval rows.
        importance: Feature importances from `training.json`.
    """
    columns = serving_columns(config)
    shown = most_important(column_readers(config), importance, _MOST_COLUMNS)
    if not (shown and sampled):
        return None
    dense = {name: value.numpy() for name, value in dense_columns(tf.constant(list(sampled)), columns).items()}
    return measure_dependence(_predict(export, columns), dense, shown)


def _predict(export: str, columns: Mapping[str, RawColumn]) -> Predict:
    loaded = load_export(export)
    keys = column_keys(tuple(columns))

    def predict(rows: DenseRows) -> Mapping[str, np.ndarray]:
        request = to_request(rows, columns, keys)
        return {name: value.numpy() for name, value in loaded.signatures[SERVING_RAW](**request).items()}

    return predict


def measure_dependence(
    predict: Predict, rows: DenseRows, readers: Sequence[ColumnReaders], *, seconds: float = _SECONDS
) -> Dependence:
    """Returns the partial dependence on some columns: numbers and dates at their quantiles, others at frequent values.

    The values of a column are selected from all rows. The model scores 200 rows per value; a slow model scores fewer,
    down to 20, and further columns are omitted when the time is used up.

    Args:
        rows: Every raw column that the model reads, for at least one eval row, in any order.
        readers: The columns to show, the most important first.
        seconds: Approximate time limit for the model's calls.
    """
    left_out: dict[str, str] = {}
    points: dict[str, Points] = {}
    for column in readers:
        column_points = points_of(column, rows[column.name], _MOST_POINTS)
        if isinstance(column_points, str):
            left_out[column.name] = column_points
        else:
            points[column.name] = column_points
    cost = _seconds_per_row(predict, rows) * _MOST_POINTS
    affordable = int(np.clip(seconds / (cost * max(len(points), 1)), _FEWEST_ROWS, _ROWS))
    sample = _chosen(rows, affordable)
    at_once = int(np.clip(_BYTES_ASKED // max(_bytes_of(sample), 1), 1, _MOST_POINTS))
    usual = predict(sample)
    series = _series(usual)
    count = len(usual["scores"])
    shown: list[ColumnDependence] = []
    for name, at in points.items():
        if shown and (len(shown) + 1) * cost * count > seconds:
            left_out[name] = "the model is too slow to show more columns"
        else:
            shown.append(_dependence(predict, sample, name, at, series, at_once))
    means = tuple(_means(usual["scores"], series).tolist())
    return Dependence(count, tuple(series), means, tuple(shown), left_out)


def _seconds_per_row(predict: Predict, rows: DenseRows) -> float:
    """Returns the seconds per row of the model, after its graph is built."""
    few = {name: values[:_TIMED_ROWS] for name, values in rows.items()}
    predict(few)
    started = time.perf_counter()
    outputs = predict(few)
    return max(time.perf_counter() - started, 1e-9) / len(outputs["scores"])


def _chosen(rows: DenseRows, count: int) -> DenseRows:
    """Returns a reproducible sample of `count` rows, or all rows."""
    order = np.random.default_rng(1).permutation(len(next(iter(rows.values()))))[:count]
    return {name: values[order] for name, values in rows.items()}


def _series(answers: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Returns the names of the scores to show with their class indices; at most the classes with the highest means."""
    scores = answers["scores"]
    if "classes" not in answers:
        return {"prediction": 0}
    names = [name.decode("utf-8", "replace") for name in answers["classes"][0]]
    if scores.ndim == 1 or scores.shape[1] == 1:
        return {names[-1]: 0}
    highest = np.argsort(-scores.mean(axis=0), kind="stable")[:_MOST_CLASSES]
    return {names[i]: int(i) for i in sorted(highest)}


def _dependence(
    predict: Predict, rows: DenseRows, name: str, at: Points, series: Mapping[str, int], at_once: int
) -> ColumnDependence:
    """Returns the dependence on one column; one call of the model scores the rows for `at_once` values."""
    count = len(rows[name])
    means: list[np.ndarray] = []
    for first in range(0, len(at.values), at_once):
        values = at.values[first : first + at_once]
        inputs = {column: np.concatenate([cells] * len(values)) for column, cells in rows.items() if column != name}
        shape, dtype = rows[name].shape, rows[name].dtype
        inputs[name] = np.concatenate([np.full(shape, value, dtype) for value in values])
        scores = predict(inputs)["scores"]
        means += [_means(scores[i * count :][:count], series) for i in range(len(values))]
    of_series = tuple(map(tuple, np.array(means).T.tolist()))
    return ColumnDependence(name, at.kind, at.texts, at.places, of_series)


def _bytes_of(rows: DenseRows) -> int:
    """Returns the size of the rows in bytes, without the overhead of Python objects."""
    return sum(sum(map(len, cells.flat)) if cells.dtype == object else cells.nbytes for cells in rows.values())


def _means(scores: np.ndarray, series: Mapping[str, int]) -> np.ndarray:
    """Returns the mean score of each series, float64 [series]."""
    scores = scores.astype(np.float64)
    return scores.reshape(len(scores), -1)[:, list(series.values())].mean(axis=0)
