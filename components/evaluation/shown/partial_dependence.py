"""Partial dependence: the mean score of eval rows if a raw column had the same value in all of them.

The effect of a column that interacts with others is averaged over the rows. The model also scores combinations of
values that occur in no row. Source: Friedman, Greedy Function Approximation (2001).
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from fullpass.components.evaluation.measure.score_rows import loaded_model
from fullpass.components.evaluation.shown.shown_files import ColumnDependence, Dependence
from fullpass.preprocessing.columns.column_keys import column_keys
from fullpass.preprocessing.columns.raw_columns import (
    RawColumn,
    date_formats,
    feature_columns,
    request_columns,
    with_source_columns,
)
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.dates.date_format import MICROSECONDS_PER_DAY, DateFormat, compile_format
from fullpass.preprocessing.dates.date_ops import parse_dates
from fullpass.preprocessing.values.written_values import read_written
from fullpass.trainer.export.export_files import SERVING_RAW
from fullpass.trainer.input.raw_examples import dense_columns
from fullpass.trainer.input.raw_tensors import to_request

_MOST_COLUMNS, _MOST_POINTS, _MOST_NUMBERS, _MOST_CLASSES = 10, 12, 24, 5
"""Numbers of columns, of values of each, of values that are numbers, such as hours, and of classes that are shown: what
a reader takes in, and tells apart."""
_ROWS, _FEWEST_ROWS, _TIMED_ROWS = 200, 20, 32
"""Rows per value, of a slow model at least, and those that time it: the mean of 200 probabilities is known to 0.04."""
_SECONDS = 20.0
"""Seconds of the calls of a model: short beside a training, and enough for a usual network."""
_BYTES_ASKED = 64 << 20
"""Bytes of the columns of one call, so that images and long texts fit into the memory of an Evaluator."""
_ONE_VALUE = "it has one value or none"

DenseRows = Mapping[str, np.ndarray]
"""Raw column -> its values, dense: float32 or object of bytes."""
Predict = Callable[[DenseRows], Mapping[str, np.ndarray]]
"""Raw columns, dense -> outputs of the model's signature `serving_raw`."""


@dataclass(frozen=True)
class ColumnReaders:
    """A raw column and the features that read it.

    Attributes:
        kind: Whether its values are numbers, dates, or unordered values.
        features: The features that read it, directly or through derived columns, and their sequences.
        formats: Formats of the dates, if it is read as dates; of numbers that are text, how they are written.
        order: The words of an ordinal, in their order.
        left_out: Reason why its dependence is not shown; "" if it is shown.
    """

    name: str
    kind: Literal["number", "date", "value"]
    features: tuple[str, ...]
    formats: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    left_out: str = ""


@dataclass(frozen=True, eq=False)
class _Points:
    """The values of a column at which the dependence is measured.

    Attributes:
        values: The values as model inputs, [points].
        texts: The values as text, [points].
        places: Positions on the axis: numbers, or days since 1970, ascending, [points]; empty for unordered values.
    """

    values: np.ndarray
    texts: tuple[str, ...]
    places: tuple[float, ...] = ()


def dependence_of_export(
    export: str, sampled: Sequence[bytes], config: PreprocessingConfig, importance: Sequence[Mapping[str, Any]]
) -> Dependence | None:
    """Returns the partial dependence of an export's scores on its most important raw columns; None if there are none.

    Args:
        sampled: A sample of the serialized eval rows.
    """
    columns = request_columns(config)
    shown = most_important(column_readers(config), importance, _MOST_COLUMNS)
    if not (shown and sampled):
        return None
    dense = {name: value.numpy() for name, value in dense_columns(tf.constant(list(sampled)), columns).items()}
    return measure_dependence(_predict(export, columns), dense, shown)


def _predict(export: str, columns: Mapping[str, RawColumn]) -> Predict:
    loaded = loaded_model(export)
    keys = column_keys(tuple(columns))

    def predict(rows: DenseRows) -> Mapping[str, np.ndarray]:
        request = to_request(rows, columns, keys)
        return {name: value.numpy() for name, value in loaded.signatures[SERVING_RAW](**request).items()}

    return predict


def measure_dependence(
    predict: Predict, rows: DenseRows, readers: Sequence[ColumnReaders], *, seconds: float = _SECONDS
) -> Dependence:
    """Returns the partial dependence on some columns: numbers and dates at their quantiles, others at frequent values.

    What is derived from a column, by expressions or by several features, changes with it.

    The values of a column are selected from all rows. The model scores 200 rows per value; a slow model scores fewer,
    down to 20, and further columns are omitted when the time is used up.

    Args:
        rows: Every raw column that the model reads, for at least one eval row, in any order.
        seconds: Approximate time limit for the model's calls.
    """
    left_out: dict[str, str] = {}
    points: list[tuple[ColumnReaders, _Points]] = []
    for column in readers:
        found = _points_of(column, rows[column.name])
        if isinstance(found, str):
            left_out[column.name] = found
        else:
            points.append((column, found))
    cost = _seconds_per_row(predict, rows) * _MOST_POINTS
    affordable = int(np.clip(seconds / (cost * max(len(points), 1)), _FEWEST_ROWS, _ROWS))
    sample = _chosen(rows, affordable)
    at_once = int(np.clip(_BYTES_ASKED // max(_bytes_of(sample), 1), 1, _MOST_POINTS))
    usual = predict(sample)
    series = _series(usual)
    count = len(usual["scores"])
    shown: list[ColumnDependence] = []
    for column, at in points:
        if shown and (len(shown) + 1) * cost * count > seconds:
            left_out[column.name] = "the model is too slow to show more columns"
        else:
            scores = _mean_scores(predict, sample, column.name, at.values, series, at_once)
            shown.append(ColumnDependence(column.name, column.kind, at.texts, at.places, scores))
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


def _mean_scores(
    predict: Predict, rows: DenseRows, name: str, points: np.ndarray, series: Mapping[str, int], at_once: int
) -> tuple[tuple[float, ...], ...]:
    """Returns the mean scores, [series][points]; one call of the model scores the rows for `at_once` points."""
    count = len(rows[name])
    means: list[np.ndarray] = []
    for first in range(0, len(points), at_once):
        values = points[first : first + at_once]
        inputs = {column: np.concatenate([cells] * len(values)) for column, cells in rows.items() if column != name}
        shape, dtype = rows[name].shape, rows[name].dtype
        inputs[name] = np.concatenate([np.full(shape, value, dtype) for value in values])
        scores = predict(inputs)["scores"]
        means += [_means(scores[i * count :][:count], series) for i in range(len(values))]
    return tuple(map(tuple, np.array(means).T.tolist()))


def _bytes_of(rows: DenseRows) -> int:
    return sum(sum(map(len, cells.flat)) if cells.dtype == object else cells.nbytes for cells in rows.values())


def _means(scores: np.ndarray, series: Mapping[str, int]) -> np.ndarray:
    scores = scores.astype(np.float64)
    return scores.reshape(len(scores), -1)[:, list(series.values())].mean(axis=0)


def column_readers(config: PreprocessingConfig) -> list[ColumnReaders]:
    """Returns the raw columns that features read, sorted by name."""
    readers: dict[str, list[str]] = defaultdict(list)
    formats = date_formats(config)
    for name, feature in config.features.items():
        for column in with_source_columns(feature_columns(name, feature), config.derive):
            readers[column].append(name)
    return [
        _readers(column, config, readers[name], formats.get(name, ()))
        for name, column in request_columns(config).items()
    ]


def most_important(
    readers: Sequence[ColumnReaders], importance: Sequence[Mapping[str, Any]], most: int
) -> list[ColumnReaders]:
    """Returns the columns of the most important features of `training.json`, the most important first.

    The importance of a column is that of the most important feature that reads it.
    """
    known = {entry["feature"]: float(entry["importance"]) for entry in importance}
    of_readers = {one.name: [known[name] for name in one.features if name in known] for one in readers}
    measured = [one for one in readers if of_readers[one.name]]
    return sorted(measured, key=lambda one: -max(of_readers[one.name]))[:most]


def _readers(
    column: RawColumn, config: PreprocessingConfig, names: list[str], formats: tuple[str, ...]
) -> ColumnReaders:
    types: set[str] = {config.features[name].type for name in names}
    sequences = [sequence for name in names if (sequence := config.sequence_of(name)) is not None]
    written = [f.format for name in names if (f := config.features[name]).type == "number" and f.format]
    order = tuple(word for name in names for word in getattr(config.features[name], "order", ()))
    kind: Literal["number", "date", "value"] = "date" if formats else "value"
    if column.type == "number" or (written and not formats):
        kind, formats = "number", tuple(dict.fromkeys(written))
    left_out = _left_out(column, types, sequences)
    return ColumnReaders(column.name, kind, (*names, *sequences), formats, order, left_out)


def _left_out(column: RawColumn, types: set[str], sequences: Sequence[str]) -> str:
    if column.image or "image" in types:
        return "an image"
    if sequences:
        return "part of a sequence"
    if column.many:
        return "a list"
    if column.type == "vector":
        return "a vector"
    return "text" if types == {"text"} else ""


def _points_of(column: ColumnReaders, values: np.ndarray) -> _Points | str:
    """Returns the points of a column, given its values in some rows, or the reason why it has none."""
    if column.left_out:
        return column.left_out
    if column.kind == "number" and values.dtype == object:
        points = _written(values, column.formats[0])
    elif column.kind == "number":
        known = values[np.isfinite(values)]
        points = _ordered(known, known.astype(np.float64), [f"{value:.7g}" for value in known])
    elif column.kind == "date":
        points = _dates(values[values != b""], compile_format(column.formats[0]))
    else:
        return _frequent(values[values != b""], column.order)
    return points if len(points.values) > 1 else _ONE_VALUE


def _dates(values: np.ndarray, written: DateFormat) -> _Points:
    """Returns dates, with positions in days since 1970 in UTC; epoch numbers get dates as their texts."""
    read = parse_dates(tf.constant(values, tf.string), written)
    valid = read.valid.numpy()
    values = values[valid]
    microseconds = (read.days * MICROSECONDS_PER_DAY + read.microseconds - read.offset).numpy()[valid]
    dates = np.datetime_as_string(microseconds.astype("datetime64[us]"), unit="s") if written.unit else values
    texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in dates]
    return _ordered(values, microseconds / MICROSECONDS_PER_DAY, texts)


def _written(values: np.ndarray, like: str) -> _Points:
    """Returns numbers that are text, with the numbers that they mean as positions."""
    texts = [value.decode("utf-8", "replace") for value in values]
    numbers = read_written(texts, like)
    known = np.flatnonzero(np.isfinite(numbers))
    return _ordered(values[known], numbers[known], [texts[i] for i in known])


def _ordered(values: np.ndarray, places: np.ndarray, texts: Sequence[str]) -> _Points:
    """Returns all distinct values; if there are too many, those at evenly spaced quantiles without the tails."""
    distinct, first = np.unique(places, return_index=True)
    if len(distinct) > _MOST_POINTS:
        levels = (np.arange(_MOST_POINTS) + 0.5) / _MOST_POINTS
        wanted = np.unique(np.quantile(places, levels, method="nearest"))
        first = first[np.searchsorted(distinct, wanted)]
        distinct = wanted
    return _Points(values[first], tuple(texts[i] for i in first), tuple(distinct.tolist()))


def _frequent(values: np.ndarray, order: Sequence[str]) -> _Points | str:
    """Returns the most frequent values, the most frequent first; if all are numbers or in an order, in their order."""
    distinct, counts = np.unique(values.astype(object), return_counts=True)
    if len(distinct) < 2:
        return _ONE_VALUE
    if len(distinct) > _MOST_POINTS and counts.max() == 1:
        return "its values do not repeat"
    texts = [value.decode("utf-8", "replace") for value in distinct]
    ranks = {word: float(rank) for rank, word in enumerate(order)}
    numbers = np.array([ranks.get(text, math.nan) for text in texts]) if ranks else read_written(texts, "1234.5")
    are_numbers = bool(ranks) or np.isfinite(numbers).all()
    most = np.argsort(-counts, kind="stable")[: _MOST_NUMBERS if are_numbers else _MOST_POINTS]
    chosen = distinct[most[np.argsort(numbers[most], kind="stable")] if are_numbers else most]
    return _Points(chosen, tuple(value.decode("utf-8", "replace") for value in chosen))
