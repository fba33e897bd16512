"""What the analyzers of TF Transform gather from batches, without a Beam element per value.

An accumulator stands for one analyzer. Its state is gathered per file, merged per span, kept, and merged over the
window, always in the order of spans and files: so the same rows give the same constants to the last bit, whatever was
known before.
"""

import abc
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_transform import analyzer_nodes
from tensorflow_transform.nodes import OperationDef

from preprocessing.counted_vocabulary import CountTokens

_TOKENS = pa.schema({"token": pa.large_binary(), "count": pa.int64()})
_PENDING_TOKENS = 1 << 20


@dataclass(frozen=True)
class Accumulator(abc.ABC):
    """One analyzer. key: of all that decides its state. tensors: names, in the traced graph, of what it is given."""

    key: bytes
    tensors: tuple[str, ...]

    @abc.abstractmethod
    def start(self) -> Any:
        """Returns the state before the first batch."""

    @abc.abstractmethod
    def add(self, state: Any, values: tuple[np.ndarray, ...]) -> Any:
        """Returns the state after a batch: an array for each of `tensors`."""

    @abc.abstractmethod
    def merge(self, states: Sequence[Any]) -> Any:
        """Returns the state of several parts of the rows, at least one."""

    @abc.abstractmethod
    def encode(self, state: Any) -> list[bytes]:
        """Returns the state as it is kept."""

    @abc.abstractmethod
    def decode(self, values: Sequence[bytes]) -> Any:
        """Returns the state that `encode` made these of."""


@dataclass(frozen=True)
class _Combined(Accumulator):
    combiner: analyzer_nodes.Combiner

    def start(self) -> Any:
        return self.combiner.create_accumulator()

    def add(self, state: Any, values: tuple[np.ndarray, ...]) -> Any:
        return self.combiner.add_input(state, values)

    def merge(self, states: Sequence[Any]) -> Any:
        return _merged(self.combiner, states)

    def encode(self, state: Any) -> list[bytes]:
        return [_coder(self.combiner).encode_cache(self.combiner.compact(state))]

    def decode(self, values: Sequence[bytes]) -> Any:
        (value,) = values
        return _coder(self.combiner).decode_cache(value)


class _Pickled(analyzer_nodes.CacheCoder):
    """For the combiners that TF Transform has no coder for. Of its own coders the one of sketches pickles too."""

    def encode_cache(self, cache: Any) -> bytes:
        return pickle.dumps(cache)

    def decode_cache(self, encoded_cache: bytes) -> Any:
        return pickle.loads(encoded_cache)


def _coder(combiner: analyzer_nodes.Combiner) -> analyzer_nodes.CacheCoder:
    return combiner.accumulator_coder or _Pickled()


def _merged(combiner: analyzer_nodes.Combiner, states: Sequence[Any]) -> Any:
    """Returns the state of several; one that was kept is no more than an array, until it is merged with a new one."""
    known = [state for state in (combiner.create_accumulator(), *states) if state is not None]
    return combiner.merge_accumulators(known)


@dataclass(frozen=True)
class _CombinedPerKey(Accumulator):
    operation: analyzer_nodes.CacheableCombinePerKeyAccumulate

    def start(self) -> dict[bytes, Any]:
        return {}

    def add(self, state: dict[bytes, Any], values: tuple[np.ndarray, ...]) -> dict[bytes, Any]:
        combiner = self.operation.combiner
        keys, *rest = values
        for place, key in enumerate(keys.tolist()):
            before = state[key] if key in state else combiner.create_accumulator()
            state[key] = combiner.add_input(before, [array[place] for array in rest])
        return state

    def merge(self, states: Sequence[dict[bytes, Any]]) -> dict[bytes, Any]:
        by_key: dict[bytes, list[Any]] = {}
        for state in states:
            for key, value in state.items():
                by_key.setdefault(key, []).append(value)
        return {key: _merged(self.operation.combiner, values) for key, values in by_key.items()}

    def encode(self, state: dict[bytes, Any]) -> list[bytes]:
        combiner, coder = self.operation.combiner, self.operation.cache_coder
        encoded = [coder.encode_cache((key, combiner.compact(state[key]))) for key in sorted(state)]
        return encoded or [b""]  # An entry of no values would be one that is not there.

    def decode(self, values: Sequence[bytes]) -> dict[bytes, Any]:
        return dict(map(self.operation.cache_coder.decode_cache, filter(None, values)))


@dataclass(frozen=True)
class _TokenCounts(Accumulator):
    """State: tables of tokens and counts; one after `merge`, each token once."""

    def start(self) -> list[pa.Table]:
        return []

    def add(self, state: list[pa.Table], values: tuple[np.ndarray, ...]) -> list[pa.Table]:
        counted = pc.value_counts(pa.array(values[0].tolist(), pa.large_binary()))
        state.append(pa.table([counted.field(0), counted.field(1)], schema=_TOKENS))
        pending = sum(table.num_rows for table in state[1:])
        return [_sums(state)] if pending > max(_PENDING_TOKENS, state[0].num_rows) else state

    def merge(self, states: Sequence[list[pa.Table]]) -> list[pa.Table]:
        return [_sums([table for state in states for table in state])]

    def encode(self, state: list[pa.Table]) -> list[bytes]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _TOKENS) as writer:
            writer.write_table(_sums(state))
        return [sink.getvalue().to_pybytes()]

    def decode(self, values: Sequence[bytes]) -> list[pa.Table]:
        (value,) = values
        return [pa.ipc.open_stream(value).read_all()]


def _sums(tables: Sequence[pa.Table]) -> pa.Table:
    """Returns each token once, with the sum of its counts."""
    if not tables:
        return _TOKENS.empty_table()
    summed = pa.concat_tables(tables).group_by("token").aggregate([("count", "sum")])
    return summed.select(["token", "count_sum"]).rename_columns(_TOKENS.names).cast(_TOKENS)


def _of_keys(operation: Any, key: bytes, tensors: tuple[str, ...]) -> Accumulator | None:
    return _CombinedPerKey(key, tensors, operation) if operation.combiner.accumulator_coder else None


def _of_vocabulary(operation: Any, key: bytes, tensors: tuple[str, ...]) -> Accumulator | None:
    plain = operation.input_dtype == "string" and len(tensors) == 1
    return _TokenCounts(key, tensors) if plain else None


def _of_ptransform(operation: Any, key: bytes, tensors: tuple[str, ...]) -> Accumulator | None:
    return _TokenCounts(key, tensors) if isinstance(operation.ptransform, CountTokens) else None


_KINDS: Mapping[type, Callable[[Any, bytes, tuple[str, ...]], Accumulator | None]] = {
    analyzer_nodes.CacheableCombineAccumulate: lambda op, key, tensors: _Combined(key, tensors, op.combiner),
    analyzer_nodes.CacheableCombinePerKeyAccumulate: _of_keys,
    analyzer_nodes.VocabularyAccumulate: _of_vocabulary,
    analyzer_nodes.PTransform: _of_ptransform,
}


def accumulator_of(operation: OperationDef, key: bytes, tensors: tuple[str, ...]) -> Accumulator | None:
    """Returns what gathers for an operation of TF Transform; None if only Beam can."""
    kind = _KINDS.get(type(operation))
    return kind(operation, key, tensors) if kind else None
