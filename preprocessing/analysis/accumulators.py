"""Accumulators of TF Transform's analyzers over batches, without a Beam element per value.

Each analyzer has one accumulator. Its state is accumulated per file, merged per span, cached, and merged over the
window, always in the order of spans and files. The same rows therefore give bit-identical constants, with or without a
cache.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.analysis import token_counts
from fullpass.preprocessing.analysis.state_encodings import encoding_of
from fullpass.preprocessing.analysis.token_counts import TokenCounts
from fullpass.preprocessing.analysis.token_files import TOKENS
from fullpass.preprocessing.apply.counted_vocabulary import CountTokens
from fullpass.preprocessing.internals.tft_internals import analyzer_nodes, nodes

EncodedStates = dict[bytes, list[bytes]]
"""Key of an accumulator -> its encoded state. The encoded state of many tokens holds the path of their file."""


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
    """folder: for the files of states with many tokens; every worker must be able to reach it."""

    folder: str

    def start(self) -> TokenCounts:
        return TokenCounts()

    def add(self, state: TokenCounts, values: tuple[np.ndarray, ...]) -> TokenCounts:
        counted = pc.value_counts(pa.array(values[0].tolist(), pa.large_binary()))
        state.add(pa.table([counted.field(0), counted.field(1)], schema=TOKENS), self.folder)
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
