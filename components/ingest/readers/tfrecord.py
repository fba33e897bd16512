"""Reads TFRecord files of tf.Examples or tf.SequenceExamples, whose context features and feature lists are columns."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.kinds_of_lists import names_of_features, parse_messages, with_one_kind
from fullpass.components.ingest.readers.reader import Reading, Rows, WholeFileReader, numbered_batches, readable
from fullpass.components.ingest.sources.source_config import TfRecordSource
from fullpass.components.ingest.sources.source_files import SourceFile
from fullpass.components.ingest.sources.storage import open_binary
from fullpass.trainer.records.frames import read_frames

_SEQUENCE = "##sequence"

Decode = Callable[[list[bytes]], pa.RecordBatch]


class TfRecordReader(WholeFileReader):
    """See `Reader`. Records are numbered from 1."""

    def __init__(self, file: SourceFile, source: TfRecordSource):
        self._path = file.path
        self._payload = source.payload

    def columns(self) -> None:
        """See base class. Returns None, because any record may have further features."""
        return None

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        decode = _decoder(self._payload)
        with readable(self._path, reading), open_binary(self._path) as stream:
            for batch, numbers in numbered_batches(read_records(stream), len):
                yield self._decoded(batch, numbers, decode, reading)

    def _decoded(self, records: list[bytes], numbers: np.ndarray, decode: Decode, reading: Reading) -> Rows:
        """Decodes records. If the decoder rejects the batch, records that are no messages become bad rows."""
        try:
            decoded = decode(records)
        except RuntimeError:  # it does not name the record
            messages = parse_messages(records, self._payload)
            for number, record, message in zip(numbers.tolist(), records, messages, strict=True):
                if message is None:
                    reading.add_malformed(number, f"no tf.{_NAMES[self._payload]}", repr(record[:200]))
            numbers = numbers[[message is not None for message in messages]]
            decoded = decode(with_one_kind([message for message in messages if message is not None]))
        return Rows(
            _select(decoded, reading), numbers, pa.Table.from_batches([decoded]) if reading.all_columns else None
        )


_NAMES = {"example": "Example", "sequence_example": "SequenceExample"}


def read_records(stream: IO[bytes]) -> Iterator[bytes]:
    """Yields the records of a TFRecord stream, each checked against its checksum.

    Raises:
        ValueError: A checksum is wrong, or the stream ends inside a record.
    """
    for _, record in read_frames(stream):
        yield record


def payload_of(path: str) -> str:
    """Returns the type of the first record, as a value of `TfRecordSource.payload`.

    A SequenceExample without feature lists has the same bytes as a tf.Example.

    Raises:
        UserError: The file has no whole record, or the first record has neither type.
    """
    from tensorflow.core.example.example_pb2 import SequenceExample

    with readable(path), open_binary(path) as stream:
        record = next(read_records(stream), b"")
    example = SequenceExample()
    try:
        example.ParseFromString(record)
    except DecodeError:
        raise UserError(f"{path}: a TFRecord file, but of no tf.Example; it begins with {record[:40]!r}.") from None
    return "sequence_example" if example.HasField("feature_lists") else "example"


def feature_names(path: str, payload: str, *, records: int) -> list[str]:
    """Returns the sorted names of the features and feature lists of the first records.

    Raises:
        UserError: The file is truncated or corrupt.
    """
    with readable(path), open_binary(path) as stream:
        messages = parse_messages(islice(read_records(stream), records), payload)
    return sorted(names_of_features(message for message in messages if message is not None))


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
    arrays = [
        batch.column(batch.schema.get_field_index(name)) if name in batch.schema.names else pa.nulls(batch.num_rows)
        for name in reading.columns
    ]
    return pa.table(arrays, names=list(reading.columns))
