"""Reads TFRecord files of tf.Examples or tf.SequenceExamples, whose context features and feature lists are columns."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.readable import readable
from fullpass.components.ingest.readers.reader import FileReader
from fullpass.components.ingest.readers.rows import Reading, Rows, numbered_batches
from fullpass.components.ingest.sources.config import TfRecordSource
from fullpass.components.ingest.sources.storage import open_binary
from fullpass.preprocessing.values.arrow_text import to_text
from fullpass.trainer.records.frames import read_frames

_SEQUENCE = "##sequence"
_SHOWN = 40
"""First bytes of a record that is no message, in the quarantine and in messages."""
_TYPES = {"float_list": pa.float32(), "int64_list": pa.int64()}
_Key = tuple[str, str]

Decode = Callable[[list[bytes]], pa.RecordBatch]


class TfRecordReader(FileReader[TfRecordSource]):
    """Records are numbered from 1. Any record may have further features."""

    def names_in_rows(self, rows: int) -> list[str]:
        """Returns the sorted names of the features and feature lists of the first records."""
        with readable(self._path), open_binary(self._path) as stream:
            records = islice(read_frames(stream), rows)
            messages = [parse_message(_message_type(self._source.payload), record) for record in records]
        return sorted({name for message in messages if message is not None for (_, name), _ in _features(message)})

    def _rows(self, reading: Reading) -> Iterator[Rows]:
        with open_binary(self._path) as stream:
            for records, numbers in numbered_batches(read_frames(stream), len):
                batch, numbers = decoded(records, numbers, self._source.payload, reading)
                all_columns = pa.Table.from_batches([batch]) if reading.all_columns else None
                yield Rows(_select(batch, reading), numbers, all_columns)


def decoded(
    records: list[bytes], numbers: np.ndarray, payload: str, reading: Reading
) -> tuple[pa.RecordBatch, np.ndarray]:
    """Returns the rows of records, and their numbers. Records that are no messages of the payload become bad rows."""
    decode = _decoder(payload)
    try:
        return decode(records), numbers
    except RuntimeError:  # it does not name the record
        kind = _message_type(payload)
        messages, numbers = parsed_messages(kind, records, numbers, reading, f"tf.{kind.DESCRIPTOR.name}")
        return decode(_with_one_kind(messages)), numbers


def payload_type(path: str) -> str:
    """Returns the type of the first record, as a value of `TfRecordSource.payload`.

    A SequenceExample without feature lists has the same bytes as a tf.Example.

    Raises:
        UserError: The file has no whole record, or the first record has neither type.
    """
    from tensorflow.core.example.example_pb2 import SequenceExample

    with readable(path), open_binary(path) as stream:
        record = next(read_frames(stream), b"")
    example = SequenceExample()
    try:
        example.ParseFromString(record)
    except DecodeError:
        raise UserError(f"{path}: a TFRecord file, but of no tf.Example; it begins with {record[:_SHOWN]!r}.") from None
    return "sequence_example" if example.HasField("feature_lists") else "example"


def _decoder(payload: str) -> Decode:
    if payload == "example":
        from fullpass.preprocessing.internals.tfx_bsl_internals import ExamplesToRecordBatchDecoder  # loads TensorFlow

        return ExamplesToRecordBatchDecoder().DecodeBatch
    from fullpass.preprocessing.internals.tfx_bsl_internals import SequenceExamplesToRecordBatchDecoder

    decode = SequenceExamplesToRecordBatchDecoder(_SEQUENCE.encode()).DecodeBatch
    return lambda records: _with_feature_lists(decode(records))


def _with_feature_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch with a column per feature list: the list of the steps' values, usually one value per step.

    A context feature takes precedence over a feature list of the same name.
    """
    if _SEQUENCE not in batch.schema.names:
        return batch
    columns = {name: batch.column(name) for name in batch.schema.names if name != _SEQUENCE}
    lists = batch.column(_SEQUENCE)
    for i in range(lists.type.num_fields):
        columns.setdefault(lists.type[i].name, pc.struct_field(lists, [i]))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _select(batch: pa.RecordBatch, reading: Reading) -> pa.Table:
    reading.seen.update(name for name in batch.schema.names if name in reading.columns)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return pa.table({name: columns.get(name, pa.nulls(batch.num_rows)) for name in reading.columns})


def _message_type(payload: str) -> Any:
    from tensorflow.core.example.example_pb2 import Example, SequenceExample

    return {"example": Example, "sequence_example": SequenceExample}[payload]


def parsed_messages(
    kind: Any, records: Sequence[bytes], numbers: np.ndarray, reading: Reading, name: str
) -> tuple[list[Any], np.ndarray]:
    """Returns the messages of a type, and the numbers of their records, int64; the other records become bad rows."""
    messages = [parse_message(kind, record) for record in records]
    for number, record, message in zip(numbers.tolist(), records, messages, strict=True):
        if message is None:
            reading.add_malformed(number, f"no {name}", repr(record[:_SHOWN]))
    is_one = [message is not None for message in messages]
    return [message for message in messages if message is not None], numbers[is_one]


def _with_one_kind(messages: Sequence[Any]) -> list[bytes]:
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


def parse_message(kind: Any, record: bytes) -> Any:
    """Returns a record as a message of a type; None if it is none."""
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
