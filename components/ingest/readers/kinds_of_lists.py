"""Salvages records that are no valid messages, or in which a feature has lists of several kinds."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from fullpass.preprocessing.values.arrow_text import to_text

_TYPES = {"float_list": pa.float32(), "int64_list": pa.int64()}
_Key = tuple[str, str]


def parse_messages(records: Iterable[bytes], payload: str) -> list[Any]:
    """Returns records parsed as tf.Examples or tf.SequenceExamples, by `payload`; None for an invalid record."""
    from tensorflow.core.example.example_pb2 import Example, SequenceExample

    kind = {"example": Example, "sequence_example": SequenceExample}[payload]
    return [_parsed(kind, record) for record in records]


def names_of_features(messages: Iterable[Any]) -> set[str]:
    """Returns the names of all features, and of all feature lists."""
    return {name for message in messages for (_, name), _ in _features(message)}


def with_one_kind(messages: Sequence[Any]) -> list[bytes]:
    """Returns messages as records in which each feature has lists of a single kind. Modifies the messages.

    An empty list gets the kind of the other lists. If a feature has values of several kinds, all become text, in the
    form of `to_text`. The type of the column then decides which values are valid, and an odd value affects only its own
    row. A sole NaN becomes an empty list.
    """
    features: dict[_Key, list[Any]] = {}
    for key, feature in chain.from_iterable(map(_features, messages)):
        features.setdefault(key, []).append(feature)
    for same_name in features.values():
        kinds = {kind for kind in map(_kind, same_name) if kind is not None}
        kind = kinds.pop() if len(kinds) == 1 else "bytes_list"
        for feature in same_name:
            _make(feature, kind)
    return [message.SerializeToString() for message in messages]


def _parsed(kind: Any, record: bytes) -> Any:
    try:
        return kind.FromString(record)
    except DecodeError:
        return None


def _features(message: Any) -> Iterator[tuple[_Key, Any]]:
    """Yields each feature with its key; for a feature list, the feature of each step, all with the same key."""
    own = message.features if hasattr(message, "features") else message.context
    yield from ((("", name), feature) for name, feature in own.feature.items())
    if hasattr(message, "feature_lists"):
        for name, steps in message.feature_lists.feature_list.items():
            yield from ((("step", name), feature) for feature in steps.feature)


def _kind(feature: Any) -> str | None:
    """Returns the kind of the list; None if it has no value."""
    kind = feature.WhichOneof("kind")
    return kind if kind is not None and getattr(feature, kind).value else None


def _make(feature: Any, kind: str) -> None:
    """Converts the list of a feature to another kind; a feature without a list stays unchanged."""
    now = feature.WhichOneof("kind")
    if now in (None, kind):
        return
    texts = _texts(list(getattr(feature, now).value), now)
    getattr(feature, kind).SetInParent()  # replaces the previous list
    getattr(feature, kind).value.extend(texts)


def _texts(values: list[Any], kind: str) -> list[bytes]:
    if kind not in _TYPES:
        return values
    texts = to_text(pa.array(values, _TYPES[kind]), strip=False, missing=())[0].to_pylist()
    return [] if texts == [None] else [b"nan" if text is None else text.encode() for text in texts]
