"""Accumulators of TF Transform's analyzers over batches, without a Beam element per value.

Each analyzer has one accumulator. Its state is accumulated per file, merged per span, cached, and merged over the
window, always in the order of spans and files. The same rows therefore give bit-identical constants, with or without a
cache.
"""

import abc
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.analysis import token_counts
from fullpass.preprocessing.analysis.token_counts import TokenCounts
from fullpass.preprocessing.analysis.token_files import TOKENS
from fullpass.preprocessing.apply.counted_vocabulary import CountTokens
from fullpass.preprocessing.internals.tft_internals import LMomentsCombiner, QuantilesCombiner, analyzer_nodes, nodes
from fullpass.preprocessing.internals.tfx_bsl_internals import QuantilesSketch

_LINE = r"\A[^\n\r]+\z"
"""The tokens that a line of a vocabulary file can hold, as a regular expression over bytes."""

EncodedStates = dict[bytes, list[bytes]]
"""Key of an accumulator -> its encoded state. The encoded state of many tokens holds the path of their file."""


class _Sketch(analyzer_nodes.CacheCoder):
    def encode_cache(self, cache: Any) -> bytes:
        return cache.__getstate__()

    def decode_cache(self, encoded_cache: bytes) -> Any:
        sketch = QuantilesSketch.__new__(QuantilesSketch)
        sketch.__setstate__(encoded_cache)
        return sketch


class _Arrays(analyzer_nodes.CacheCoder):
    """Encodes a state that is a named tuple of arrays."""

    def __init__(self, of: type) -> None:
        self._of = of

    def encode_cache(self, cache: Sequence[Any]) -> bytes:
        stream = io.BytesIO()
        for array in cache:
            np.save(stream, np.asarray(array), allow_pickle=False)
        return stream.getvalue()

    def decode_cache(self, encoded_cache: bytes) -> Any:
        stream = io.BytesIO(encoded_cache)
        arrays = []
        while stream.tell() < len(encoded_cache):
            arrays.append(np.load(stream, allow_pickle=False))
        return self._of(*arrays)


def encoding_of(combiner: analyzer_nodes.Combiner) -> analyzer_nodes.CacheCoder | None:
    """Returns the encoding of a combiner's states; None if its states must not be cached.

    | combiner | encoding of its state |
    |---|---|
    | sums, minima, maxima, means, variances, covariances | JSON lists of numbers, by TF Transform's own coder |
    | quantiles | the serialized protocol buffer of tfx_bsl's sketch |
    | moments (scale_to_gaussian) | one array after another in the format NPY |

    Others may write to the cache, so decoding a state never runs code that the bytes name, as pickle would. A function
    with any other combiner is analyzed by TF Transform itself, and nothing is cached.
    """
    if isinstance(combiner, QuantilesCombiner):
        return _Sketch()
    if isinstance(combiner, LMomentsCombiner):
        return _Arrays(combiner.accumulator_class)
    coder = combiner.accumulator_coder
    return coder if type(coder) is analyzer_nodes.JsonNumpyCacheCoder else None


@dataclass(frozen=True)
class Accumulator(abc.ABC):
    """Accumulates for one analyzer.

    key: digest of everything the state depends on. tensors: names of the input tensors.
    """

    key: bytes
    tensors: tuple[str, ...]

    @abc.abstractmethod
    def start(self) -> Any:
        """Returns the state before the first batch."""

    @abc.abstractmethod
    def add(self, state: Any, values: tuple[np.ndarray, ...]) -> Any:
        """Returns the state after a batch. values: one array for each of `tensors`."""

    @abc.abstractmethod
    def merge(self, states: Sequence[Any]) -> Any:
        """Returns the merged state. states: of one or more parts of the rows."""

    @abc.abstractmethod
    def encode(self, state: Any) -> list[bytes]:
        """Returns the state encoded for the cache."""

    @abc.abstractmethod
    def decode(self, values: Sequence[bytes]) -> Any:
        """Returns the state that `encode` encoded."""


@dataclass(frozen=True)
class _Combined(Accumulator):
    combiner: analyzer_nodes.Combiner
    encoding: analyzer_nodes.CacheCoder

    def start(self) -> Any:
        return self.combiner.create_accumulator()

    def add(self, state: Any, values: tuple[np.ndarray, ...]) -> Any:
        return self.combiner.add_input(state, values)

    def merge(self, states: Sequence[Any]) -> Any:
        return _merged(self.combiner, states)

    def encode(self, state: Any) -> list[bytes]:
        return [self.encoding.encode_cache(self.combiner.compact(state))]

    def decode(self, values: Sequence[bytes]) -> Any:
        (value,) = values
        return self.encoding.decode_cache(value)


def _merged(combiner: analyzer_nodes.Combiner, states: Sequence[Any]) -> Any:
    """Returns the merged state. A decoded state may be a bare array until it is merged with a new accumulator."""
    present = [state for state in (combiner.create_accumulator(), *states) if state is not None]
    return combiner.merge_accumulators(present)


@dataclass(frozen=True)
class _CombinedPerKey(Accumulator):
    """State: key -> state of the combiner. The encoding alternates keys and states."""

    combiner: analyzer_nodes.Combiner
    encoding: analyzer_nodes.CacheCoder

    def start(self) -> dict[bytes, Any]:
        return {}

    def add(self, state: dict[bytes, Any], values: tuple[np.ndarray, ...]) -> dict[bytes, Any]:
        keys, *rest = values
        for index, key in enumerate(keys.tolist()):
            before = state[key] if key in state else self.combiner.create_accumulator()
            state[key] = self.combiner.add_input(before, [array[index] for array in rest])
        return state

    def merge(self, states: Sequence[dict[bytes, Any]]) -> dict[bytes, Any]:
        by_key: dict[bytes, list[Any]] = {}
        for state in states:
            for key, value in state.items():
                by_key.setdefault(key, []).append(value)
        return {key: _merged(self.combiner, values) for key, values in by_key.items()}

    def encode(self, state: dict[bytes, Any]) -> list[bytes]:
        encoded = ((key, self.encoding.encode_cache(self.combiner.compact(state[key]))) for key in sorted(state))
        return [value for pair in encoded for value in pair]

    def decode(self, values: Sequence[bytes]) -> dict[bytes, Any]:
        return {key: self.encoding.decode_cache(value) for key, value in zip(values[::2], values[1::2], strict=True)}


@dataclass(frozen=True)
class _CountedTokens(Accumulator):
    """Counts tokens, or sums the int64 amounts of a second tensor per token.

    folder: for the files of states with many tokens; every worker must be able to reach it.
    """

    folder: str

    def start(self) -> TokenCounts:
        return TokenCounts()

    def add(self, state: TokenCounts, values: tuple[np.ndarray, ...]) -> TokenCounts:
        tokens = pa.array(values[0].tolist(), pa.large_binary())
        if len(values) > 1:
            counted = token_counts.sums([pa.table([tokens, pa.array(values[1])], schema=TOKENS)])
        else:
            counts = pc.value_counts(tokens)
            counted = pa.table([counts.field(0), counts.field(1)], schema=TOKENS)
        state.add(counted.filter(pc.match_substring_regex(counted["token"], _LINE)), self.folder)
        return state

    def merge(self, states: Sequence[TokenCounts]) -> TokenCounts:
        return token_counts.merged(states, self.folder)

    def encode(self, state: TokenCounts) -> list[bytes]:
        return token_counts.encode(state, self.folder)

    def decode(self, values: Sequence[bytes]) -> TokenCounts:
        return token_counts.decode(values)


_Kind = Callable[[Any, bytes, tuple[str, ...], str], Accumulator | None]


def _with_encoding(kind: Callable[..., Accumulator]) -> _Kind:
    def make(operation: Any, key: bytes, tensors: tuple[str, ...], folder: str) -> Accumulator | None:
        encoding = encoding_of(operation.combiner)
        return kind(key, tensors, operation.combiner, encoding) if encoding else None

    return make


_KINDS: Mapping[type, _Kind] = {
    analyzer_nodes.CacheableCombineAccumulate: _with_encoding(_Combined),
    analyzer_nodes.CacheableCombinePerKeyAccumulate: _with_encoding(_CombinedPerKey),
    analyzer_nodes.VocabularyAccumulate: lambda op, key, tensors, folder: (
        _CountedTokens(key, tensors, folder) if op.input_dtype == "string" and len(tensors) == 1 else None
    ),
    analyzer_nodes.PTransform: lambda op, key, tensors, folder: (
        _CountedTokens(key, tensors, folder) if isinstance(op.ptransform, CountTokens) else None
    ),
}


def accumulator_of(
    operation: nodes.OperationDef, key: bytes, tensors: tuple[str, ...], folder: str
) -> Accumulator | None:
    """Returns the accumulator of an operation of TF Transform; None if only Beam can compute it.

    Args:
        key: Digest of everything its state depends on.
        folder: For files of states; every worker must be able to reach it.
    """
    kind = _KINDS.get(type(operation))
    return kind(operation, key, tensors, folder) if kind else None
