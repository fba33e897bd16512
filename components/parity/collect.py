"""The same eval rows on each of the ways that must agree, as NumPy arrays in the order of their row ids."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from preprocessing.columns import RawColumn
from preprocessing.outputs import ROW_ID
from trainer.blocks import Block
from trainer.input_fn import without_gaps
from trainer.raw_columns import DTYPES, to_dense
from trainer.signatures import column_keys

BATCH_ROWS = 1024

Features = dict[str, np.ndarray]


def raw_records(files: Sequence[str], limit: int | None) -> list[bytes]:
    """Returns the first `limit` serialized examples of TFRecord files, or all."""
    dataset = tf.data.Dataset.from_tensor_slices(list(files)).flat_map(_open)
    return list((dataset if limit is None else dataset.take(limit)).as_numpy_iterator())


def through(function: Callable[..., Mapping[str, tf.Tensor]], records: Sequence[bytes]) -> Features:
    """Returns what a signature that takes serialized examples gives for `records`, batch by batch."""
    parts = [_numpy(function(tf.constant(records[i : i + BATCH_ROWS]))) for i in range(0, len(records), BATCH_ROWS)]
    return _join(parts)


def through_raw(
    function: Callable[..., Mapping[str, tf.Tensor]], records: Sequence[bytes], columns: Mapping[str, RawColumn]
) -> Features:
    """Returns what `serving_raw` gives for the raw columns of `records`: the way of a JSON request."""
    keys = column_keys(tuple(columns))
    spec = {name: tf.io.VarLenFeature(DTYPES[column.type]) for name, column in columns.items()}
    parts = []
    for i in range(0, len(records), BATCH_ROWS):
        parsed = tf.io.parse_example(tf.constant(records[i : i + BATCH_ROWS]), spec)
        parts.append(_numpy(function(**{keys[name]: to_dense(parsed[name], columns[name]) for name in columns})))
    return _join(parts)


def from_blocks(blocks: Iterator[Block], row_ids: np.ndarray) -> Features:
    """Returns the rows with the given ids out of decoded blocks, in the order of `row_ids`."""
    wanted = set(row_ids.tolist())
    parts = []
    for block in blocks:
        part = _numpy({name: without_gaps(value) for name, value in block.items()})
        chosen = np.array([row in wanted for row in part[ROW_ID].tolist()], dtype=bool)
        parts.append({name: value[chosen] for name, value in part.items()})
    features = _join(parts)
    order = np.argsort(features[ROW_ID])[np.argsort(np.argsort(row_ids))]
    return {name: value[order] for name, value in features.items()}


def _open(file: tf.Tensor) -> tf.data.TFRecordDataset:
    compression = tf.where(tf.strings.regex_full_match(file, r".*\.gz"), "GZIP", "")
    return tf.data.TFRecordDataset(file, compression_type=compression)


def _numpy(features: Mapping[str, tf.Tensor | tf.RaggedTensor]) -> Features:
    return {
        name: (value.to_tensor() if isinstance(value, tf.RaggedTensor) else value).numpy()
        for name, value in features.items()
    }


def _join(parts: Sequence[Features]) -> Features:
    return {name: np.concatenate(_same_width([part[name] for part in parts])) for name in parts[0]}


def _same_width(arrays: list[np.ndarray]) -> list[np.ndarray]:
    if arrays[0].ndim < 2:
        return arrays
    width = max(array.shape[1] for array in arrays)
    return [np.pad(a, [(0, 0), (0, width - a.shape[1])]) if a.shape[1] < width else a for a in arrays]
