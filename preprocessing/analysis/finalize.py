"""Finalizes accumulators into graph constants, in one process.

Each function replaces one operation of TF Transform and computes the same values. In TF Transform each operation is a
Beam stage: twenty features need several hundred stages, and each takes 10 to 20 ms even without data.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from fullpass.preprocessing.analysis.token_counts import Ranked, TokenCounts, rank
from fullpass.preprocessing.apply.counted_vocabulary import MergeCounts, WriteVocabulary
from fullpass.preprocessing.internals.tft_internals import analyzer_nodes, empty_vocabulary_value, nodes


class CannotFinalize(Exception):
    """The function has an analyzer that only TF Transform itself can compute."""


class Finalizer(nodes.Visitor):
    """Computes the values of analyzers from their accumulated states.

    Args:
        states: Label of an accumulating operation -> its state over all rows.
    """

    def __init__(self, states: Mapping[str, Any], folder: str):
        self._states = states
        self._folder = folder

    def visit(self, operation_def: nodes.OperationDef, input_values: Sequence[Any]) -> tuple[Any, ...]:
        if operation_def.label in self._states:
            return (self._states[operation_def.label],)
        if isinstance(operation_def, analyzer_nodes.TensorSource):
            return (None,)
        if isinstance(operation_def, analyzer_nodes.PTransform):
            return _ptransform(operation_def, input_values, self._folder)
        return _FINALIZE[type(operation_def)](operation_def, input_values, self._folder)

    def validate_value(self, value: Any) -> None:
        """Accepts every value."""


def can_finalize(operation: nodes.OperationDef) -> bool:
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
    limits = operation.ptransform.limits
    ranked = rank(inputs[0], min_count=limits.min_count, top_k=limits.top_k, folder=folder)
    pairs = (
        pair
        for table in ranked.tables()
        for pair in zip(table["count"].to_pylist(), table["token"].to_pylist(), strict=True)
    )
    return (operation.ptransform.write(pairs, ranked.total, folder),)


def _arrays_per_key(operation: Any, inputs: Sequence[Any], folder: str) -> tuple[Any, ...]:
    infos = operation.combiner.output_tensor_infos()
    keys = np.array([key for key, _ in inputs[0]], dtype=object)
    columns = zip(*(outputs for _, outputs in inputs[0]), strict=True) if inputs[0] else [[]] * len(infos)
    arrays = (np.array(column, info.dtype.as_numpy_dtype) for column, info in zip(columns, infos, strict=True))
    return (keys, *arrays)


def _distinct(tokens: TokenCounts | Ranked, folder: str) -> int:
    return tokens.num_rows if isinstance(tokens, Ranked) else tokens.distinct(folder)


def _vocabulary_file(operation: Any, inputs: Sequence[Any], folder: str) -> tuple[Any, ...]:
    (ranked,) = inputs
    path = f"{folder}/{operation.vocab_filename}"
    tf.io.gfile.makedirs(folder)
    with tf.io.gfile.GFile(path, "wb") as file:
        for table in ranked.tables() if ranked.num_rows else [_placeholder(operation.input_dtype)]:
            tokens = table["token"].to_pylist()
            if operation.store_frequency:
                numbers = table["count"].to_pylist()
                tokens = [b"%d %s" % pair for pair in zip(numbers, tokens, strict=True)]
            file.write(b"".join(token + b"\n" for token in tokens))
    return (np.array(path),)


def _placeholder(dtype: Any) -> pa.Table:
    """Returns the one line of a vocabulary without tokens."""
    count, token = empty_vocabulary_value(dtype)
    return pa.table({"token": pa.array([token], pa.large_binary()), "count": [count]})


_FINALIZE: Mapping[type, Callable[[Any, Sequence[Any], str], tuple[Any, ...]]] = {
    analyzer_nodes.CacheableCombineMerge: lambda op, inputs, folder: (op.combiner.extract_output(inputs[0]),),
    analyzer_nodes.ExtractCombineMergeOutputs: lambda op, inputs, folder: tuple(inputs[0]),
    analyzer_nodes.CacheableCombinePerKeyMerge: lambda op, inputs, folder: (
        [(key, op.combiner.extract_output(inputs[0][key])) for key in sorted(inputs[0])],
    ),
    analyzer_nodes.CacheableCombinePerKeyFormatKeys: _arrays_per_key,
    analyzer_nodes.VocabularyMerge: lambda op, inputs, folder: tuple(inputs),
    analyzer_nodes.VocabularyPrune: lambda op, inputs, folder: (
        rank(inputs[0], min_count=op.frequency_threshold, top_k=op.top_k, folder=folder),
    ),
    analyzer_nodes.VocabularyCount: lambda op, inputs, folder: (np.int64(max(_distinct(inputs[0], folder), 1)),),
    analyzer_nodes.VocabularyOrderAndWrite: _vocabulary_file,
}
