"""Finalizes accumulators into graph constants, in one process.

Each function stands for one operation of TF Transform and gives the same values. There, each operation is a Beam stage:
several hundred for twenty features, of 10 to 20 ms each even without data.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from tensorflow_transform import analyzer_nodes, nodes
from tensorflow_transform.analyzers import get_empy_vocabulary_dummy_value
from tensorflow_transform.nodes import OperationDef

from fullpass.preprocessing.apply.counted_vocabulary import MergeCounts, WriteVocabulary

_PER_WRITE = 1 << 16


class CannotFinalize(Exception):
    """The function has an analyzer that only TF Transform itself can compute."""


class Finalizer(nodes.Visitor):
    """Computes the values of analyzers from their accumulated states.

    Args:
        states: label of an accumulating operation -> its state over all rows.
        folder: for vocabulary files.
    """

    def __init__(self, states: Mapping[str, Any], folder: str):
        self._states = states
        self._folder = folder

    def visit(self, operation_def: OperationDef, input_values: Sequence[Any]) -> tuple[Any, ...]:
        """See base class."""
        if operation_def.label in self._states:
            return (self._states[operation_def.label],)
        if isinstance(operation_def, analyzer_nodes.TensorSource):
            return (None,)
        if isinstance(operation_def, analyzer_nodes.PTransform):
            return _ptransform(operation_def, input_values, self._folder)
        return _FINALIZE[type(operation_def)](operation_def, input_values, self._folder)

    def validate_value(self, value: Any) -> None:
        """See base class."""


def can_finalize(operation: OperationDef) -> bool:
    """Returns whether `Finalizer` can compute an operation that follows an accumulating one."""
    match operation:
        case analyzer_nodes.PTransform():
            return isinstance(operation.ptransform, MergeCounts | WriteVocabulary)
        case analyzer_nodes.VocabularyPrune():
            return operation.key_fn is None
        case analyzer_nodes.VocabularyOrderAndWrite():
            return operation.file_format == "text" and not operation.fingerprint_shuffle
    return type(operation) in _FINALIZE


def _ptransform(operation: Any, inputs: Sequence[Any], folder: str) -> tuple[Any, ...]:
    if isinstance(operation.ptransform, MergeCounts):
        return tuple(inputs)
    (counts,) = inputs[0]
    return (operation.ptransform.write(_pairs(counts), folder),)


def _pairs(counts: pa.Table) -> Iterator[tuple[bytes, int]]:
    for batch in counts.to_batches(_PER_WRITE):
        yield from zip(batch.column("token").to_pylist(), batch.column("count").to_pylist(), strict=True)


def _arrays_per_key(operation: Any, inputs: Sequence[Any], folder: str) -> tuple[Any, ...]:
    infos = operation.combiner.output_tensor_infos()
    keys = np.array([key for key, _ in inputs[0]], dtype=object)
    columns = zip(*(outputs for _, outputs in inputs[0]), strict=True) if inputs[0] else [[]] * len(infos)
    arrays = (np.array(column, info.dtype.as_numpy_dtype) for column, info in zip(columns, infos, strict=True))
    return (keys, *arrays)


def _pruned_counts(operation: Any, inputs: Sequence[Any], folder: str) -> tuple[Any, ...]:
    """Sorts tokens by falling count; equally frequent ones by falling bytes."""
    (counts,) = inputs
    kept = counts.filter(pc.greater_equal(counts["count"], operation.frequency_threshold))
    kept = kept.sort_by([("count", "descending"), ("token", "descending")])
    return (kept if operation.top_k is None else kept.slice(0, operation.top_k),)


def _vocabulary_file(operation: Any, inputs: Sequence[Any], folder: str) -> tuple[Any, ...]:
    (counts,) = inputs
    if not counts.num_rows:
        count, token = get_empy_vocabulary_dummy_value(operation.input_dtype)
        counts = pa.table({"token": pa.array([token], pa.large_binary()), "count": [count]})
    path = f"{folder}/{operation.vocab_filename}"
    tf.io.gfile.makedirs(folder)
    with tf.io.gfile.GFile(path, "wb") as file:
        for batch in counts.to_batches(_PER_WRITE):
            tokens = batch.column("token").to_pylist()
            if operation.store_frequency:
                numbers = batch.column("count").to_pylist()
                tokens = [b"%d %s" % pair for pair in zip(numbers, tokens, strict=True)]
            file.write(b"".join(token + b"\n" for token in tokens))
    return (np.array(path),)


_FINALIZE: Mapping[type, Callable[[Any, Sequence[Any], str], tuple[Any, ...]]] = {
    analyzer_nodes.CacheableCombineMerge: lambda op, inputs, folder: (op.combiner.extract_output(inputs[0]),),
    analyzer_nodes.ExtractCombineMergeOutputs: lambda op, inputs, folder: tuple(inputs[0]),
    analyzer_nodes.CacheableCombinePerKeyMerge: lambda op, inputs, folder: (
        [(key, op.combiner.extract_output(inputs[0][key])) for key in sorted(inputs[0])],
    ),
    analyzer_nodes.CacheableCombinePerKeyFormatKeys: _arrays_per_key,
    analyzer_nodes.VocabularyMerge: lambda op, inputs, folder: tuple(inputs[0]),
    analyzer_nodes.VocabularyPrune: _pruned_counts,
    analyzer_nodes.VocabularyCount: lambda op, inputs, folder: (np.int64(max(inputs[0].num_rows, 1)),),
    analyzer_nodes.VocabularyOrderAndWrite: _vocabulary_file,
}
