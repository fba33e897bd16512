"""Reads PredictionLog, the request log of TensorFlow Serving: rows with the columns of Fullpass' own log."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from fullpass.components.ingest.readers.reader import FileReader
from fullpass.components.ingest.readers.rows import Reading, Rows, numbered_batches
from fullpass.components.ingest.readers.tfrecord import decoded, parse_message
from fullpass.components.ingest.sources.config import ServingLogSource
from fullpass.components.ingest.sources.storage import open_binary
from fullpass.components.serving_log import columns as log
from fullpass.components.serving_log.cells import TYPES
from fullpass.preprocessing.columns.column_keys import column_keys
from fullpass.preprocessing.values.list_values import lists_of_lengths
from fullpass.trainer.records.frames import read_frames

_SHOWN = 40
"""First bytes of a record that is no message, in the quarantine."""
_DATED = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T/_-](\d\d)(?!\d))?")
"""The day, and perhaps the hour, in the path of a log whose records have no time."""


@dataclass(frozen=True)
class _Call:
    """A request with its answer. It has serialized examples, or tensors by input.

    Attributes:
        own: Column of the log -> its value in each row.
    """

    rows: int
    examples: Sequence[bytes]
    tensors: Mapping[str, np.ndarray]
    own: Mapping[str, Sequence[Any]]

    @property
    def inputs(self) -> list[tuple[str, int, str]]:
        """What requests whose tensors can be joined have in common."""
        return sorted((name, one.ndim, one.dtype.str) for name, one in self.tensors.items())


class PredictionLogReader(FileReader[ServingLogSource]):
    """A row of a request is a row, numbered by its position in the file. Calls that do not predict are bad rows."""

    def _rows(self, reading: Reading) -> Iterator[Rows]:
        first = 1
        with open_binary(self._path) as stream:
            for records, numbers in numbered_batches(read_frames(stream), len):
                calls = []
                for number, record in zip(numbers.tolist(), records, strict=True):
                    call = self._call(record, number)
                    if isinstance(call, _Call):
                        calls.append((first, call))
                        first += call.rows
                    else:
                        reading.add_malformed(first, call, repr(record[:_SHOWN]))
                        first += 1
                for _, run in groupby(calls, key=lambda one: one[1].inputs):
                    yield self._together(list(run), reading)

    def _together(self, run: Sequence[tuple[int, _Call]], reading: Reading) -> Rows:
        """Returns the rows of requests with the same inputs. run: each with the number of its first row."""
        calls = [call for _, call in run]
        numbers = np.concatenate([np.arange(first, first + call.rows) for first, call in run])
        names = dict.fromkeys(name for call in calls for name in call.own)
        own = pa.table(
            {n: pa.array([v for c in calls for v in c.own.get(n, [None] * c.rows)], TYPES[n]) for n in names}
        )
        if calls[0].tensors:
            found = _joined(calls, tuple(reading.columns))
        else:
            every = numbers
            batch, numbers = decoded([one for call in calls for one in call.examples], every, "example", reading)
            own = own.filter(pa.array(np.isin(every, numbers)))
            found = dict(zip(batch.schema.names, batch.columns, strict=True))
        cells = found | dict(zip(own.column_names, own.columns, strict=True))
        reading.seen.update(cells.keys() & reading.columns.keys())
        table = pa.table({name: cells.get(name, pa.nulls(len(numbers))) for name in reading.columns})
        return Rows(table, numbers, pa.table(cells) if reading.all_columns else None)

    def _call(self, record: bytes, number: int) -> _Call | str:
        """Returns the request of a record, or why it is none."""
        from tensorflow_serving.apis import prediction_log_pb2  # loads TensorFlow

        message = parse_message(prediction_log_pb2.PredictionLog, record)
        kind = message and message.WhichOneof("log_type")
        if kind not in _KINDS:
            return f"{kind or 'no PredictionLog'}: not one of {', '.join(_KINDS)}"
        entry, metadata = getattr(message, kind), message.log_metadata
        examples, tensors, scores, labels = _KINDS[kind](entry)
        lengths = {len(one) if one.ndim else -1 for one in tensors.values()}
        rows = len(examples) or max(lengths, default=0)
        if not lengths <= {0, rows}:
            return f"inputs of {', '.join(map(str, sorted(lengths)))} rows"
        versions = (entry.response.model_spec, metadata.model_spec, entry.request.model_spec)
        version = next((spec.version.value for spec in versions if spec.HasField("version")), None)
        shared = {
            log.REQUEST: f"{self._path.rpartition('/')[2]}-{number}",
            log.TIME: self._time(metadata.timestamp_secs),
            log.VERSION: version,
            log.SAMPLED: metadata.sampling_config.sampling_rate or 1.0,
        }
        own: dict[str, Sequence[Any]] = {
            column.name: [value] * rows for column, value in shared.items() if value is not None
        }
        own[log.ID.name] = [f"{shared[log.REQUEST]}-{row}" for row in range(rows)]
        own[log.ROW.name] = list(range(rows))
        answers = {log.SCORES: scores, log.LABEL: labels}
        own |= {column.name: of for column, of in answers.items() if of is not None and len(of) == rows}
        return _Call(rows, examples, tensors, own)

    def _time(self, seconds: int) -> str | None:
        """Returns the time of a request: that of its record, else that in the path of the file."""
        if seconds:
            return datetime.fromtimestamp(seconds, UTC).isoformat()
        found = _DATED.findall(self._path)
        return f"{found[-1][0]}T{found[-1][1] or '00'}:00:00+00:00" if found else None


def _of_predict(entry: Any) -> tuple[Sequence[bytes], Mapping[str, np.ndarray], Any, Any]:
    """Returns examples, tensors, scores and classes of a call of Predict."""
    import tensorflow as tf

    tensors = {name: tf.make_ndarray(one) for name, one in entry.request.inputs.items()}
    outputs = {name: tf.make_ndarray(one) for name, one in entry.response.outputs.items()}
    scores, labels = outputs.get("scores"), outputs.get("prediction")
    scores = None if scores is None else scores.reshape(len(scores), -1).tolist()
    labels = None if labels is None or labels.dtype != object else labels.tolist()
    if list(tensors) == ["examples"]:
        return tensors["examples"].tolist(), {}, scores, labels
    return (), tensors, scores, labels


def _of_classify(entry: Any) -> tuple[Sequence[bytes], Mapping[str, np.ndarray], Any, Any]:
    """Of two classes the score is that of the second, as Fullpass' models answer."""
    found = [[(one.score, one.label) for one in of.classes] for of in entry.response.result.classifications]
    scores = [[score for score, _ in of][1 if len(of) == 2 else 0 :] for of in found]
    return _examples(entry.request.input), {}, scores, [max(of)[1] if of else None for of in found]


def _of_regress(entry: Any) -> tuple[Sequence[bytes], Mapping[str, np.ndarray], Any, Any]:
    return _examples(entry.request.input), {}, [[one.value] for one in entry.response.result.regressions], None


_KINDS = {"predict_log": _of_predict, "classify_log": _of_classify, "regress_log": _of_regress}


def _examples(given: Any) -> list[bytes]:
    """Returns the examples of a request to classify or regress; what they share is in each."""
    if given.WhichOneof("kind") != "example_list_with_context":
        return [one.SerializeToString() for one in given.example_list.examples]
    found = []
    for one in given.example_list_with_context.examples:
        whole = type(one)()
        whole.CopyFrom(given.example_list_with_context.context)
        whole.MergeFrom(one)
        found.append(whole.SerializeToString())
    return found


def _joined(calls: Sequence[_Call], wanted: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """Returns the inputs of requests by the column that each is of, or by their own name if none is wanted."""
    columns = {key: name for name, key in column_keys(wanted).items()}
    return {
        columns.get(key, key): pa.chunked_array([_cells(call.tensors[key], call.rows) for call in calls])
        for key in calls[0].tensors
    }


def _cells(array: np.ndarray, rows: int) -> pa.Array:
    """Returns an input of `serving_raw`, where NaN and "" are missing, and pad lists."""
    kind = pa.binary() if array.dtype == object else pa.from_numpy_dtype(array.dtype)
    if not len(array):
        return pa.nulls(rows, kind if array.ndim == 1 else pa.large_list(kind))
    present = array != b"" if array.dtype == object else array == array  # NaN is unequal to itself
    if array.ndim == 1:
        return pa.array(array, kind, mask=~present)
    array, present = array.reshape(rows, -1), present.reshape(rows, -1)
    width = array.shape[1]
    lengths = np.where(present.any(axis=1), width - present[:, ::-1].argmax(axis=1), 0)
    return lists_of_lengths(pa.array(array[np.arange(width) < lengths[:, None]], kind), lengths)
