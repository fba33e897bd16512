"""Measures the cost of computing features when examples are written, in the input function, or in the model.

Input and training step are measured as in the rest of the diagnosis: on the model that the Trainer would build, with
`drain` and `train`. The latency of requests to the export is measured in addition.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import tensorflow as tf

from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.trainer.diagnosis.input_settings import RowStorage, batches, input_settings
from fullpass.trainer.diagnosis.profiled_training import ProfiledTraining
from fullpass.trainer.diagnosis.rates import drain, train
from fullpass.trainer.export.export import export_model
from fullpass.trainer.export.export_files import SERVING_RAW
from fullpass.trainer.export.sample_requests import Row, read_samples, to_columns, to_row
from fullpass.trainer.export.signatures import Served, column_keys, served_model
from fullpass.trainer.input.raw_tensors import DTYPES

LATENCY_BATCH = 256
_ROUNDS = 5
_SECONDS = 0.4
_CALLS = 20
_WARM_UP = 5


@dataclass(frozen=True)
class PlacementCost:
    """The cost of one placement of the features, measured on the sample.

    Attributes:
        compute_at: The value of `compute_at`: transform, input or model; for a mixture, a description.
        written_bytes: The bytes of the transformed examples; 0 if none are written.
        start_seconds: The fixed seconds of computing and writing, for any number of rows.
        seconds_per_row: The seconds that each row adds to them.
        read_bytes: The bytes that one epoch reads from disk.
        streamed: The examples per second of the input from files.
        kept: Where the train rows of the full data are kept between epochs: memory, disk, or files, which keeps none.
        later: The examples per second of the input from the second epoch on.
        memory_bytes: The bytes of the train split in memory.
        step_ms: The milliseconds of an update on a batch that is already available.
        row_ms: The milliseconds of a request with one row to the export.
        batch_ms: The milliseconds of a request with LATENCY_BATCH rows.
    """

    compute_at: str
    written_bytes: int
    start_seconds: float
    seconds_per_row: float
    read_bytes: int
    streamed: float
    kept: str
    later: float
    memory_bytes: int
    step_ms: float
    row_ms: float
    batch_ms: float


@dataclass(frozen=True)
class WriteCost:
    """The cost of writing the transformed examples; the attributes are those of PlacementCost."""

    written_bytes: int = 0
    start_seconds: float = 0.0
    seconds_per_row: float = 0.0


class PlacementTrial:
    """One placement of the features, ready to be measured."""

    def __init__(self, compute_at: str, written: WriteCost, profiled: ProfiledTraining, graph: str):
        """Builds the model, exports it, and reads the sample once.

        Args:
            compute_at: The name of the placement.
            written: The cost of writing the examples.
            profiled: The training on these examples.
            graph: The folder of the transform graph, which holds a few raw examples.
        """
        self._compute_at, self._written, self._profiled = compute_at, written, profiled
        self._setting = input_settings(profiled, {})
        self._streamed, self._later = self._input("files"), self._input(self._setting.kept)
        self._batch = next(iter(self._later))
        spec = profiled.spec
        self._one, self._many = _requests(served_model(spec, profiled.built.network, profiled.names), graph)

    def measured(self) -> PlacementCost:
        """Measures everything once."""
        size = self._setting.batch_size
        repeated = tf.data.Dataset.from_tensors(self._batch).repeat()
        step = train(self._profiled.update, repeated, size, _SECONDS)
        return PlacementCost(
            compute_at=self._compute_at,
            **vars(self._written),
            read_bytes=self._profiled.bytes,
            streamed=drain(iter(self._streamed.repeat()), _rows_of, _SECONDS).per_second,
            kept=self._setting.kept,
            later=drain(iter(self._later.repeat()), _rows_of, _SECONDS).per_second,
            memory_bytes=self._profiled.row_bytes * self._profiled.sampled,
            step_ms=1000 * step.seconds_per_row * size,
            row_ms=_median_ms(self._one),
            batch_ms=_median_ms(self._many),
        )

    def _input(self, kept: RowStorage) -> tf.data.Dataset:
        setting = replace(self._setting, kept=kept)
        return batches(self._profiled, setting, self._profiled.order(setting.batch_size, setting.shuffle))


def measure_in_turn(trials: Sequence[PlacementTrial]) -> list[PlacementCost]:
    """Returns the cost of each placement: medians over rounds, each of which measures all placements in turn."""
    rounds = [[trial.measured() for trial in trials] for _ in range(_ROUNDS)]
    measured = ("streamed", "later", "step_ms", "row_ms", "batch_ms")
    return [
        replace(costs[0], **{name: median(getattr(cost, name) for cost in costs) for name in measured})
        for costs in zip(*rounds, strict=True)
    ]


def _requests(served: Served, graph: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Returns two functions that send one row, and LATENCY_BATCH rows, to an export; the rows are those of `graph`."""
    samples = read_samples(graph)
    with tempfile.TemporaryDirectory() as folder:
        export_model(served, f"{folder}/export", name="placement", source={}, samples=samples)
        # After loading, the files are no longer needed.
        loaded = tf.saved_model.load(f"{folder}/export")
    rows = [to_row(example, served.columns) for example in samples]
    one = _request(rows[:1], served.columns)
    many = _request([rows[i % len(rows)] for i in range(LATENCY_BATCH)], served.columns)

    def predict(given: Mapping[str, tf.Tensor]) -> Any:
        return loaded.signatures[SERVING_RAW](**given)["prediction"].numpy()

    return lambda: predict(one), lambda: predict(many)


def _request(rows: Sequence[Row], columns: Mapping[str, RawColumn]) -> dict[str, tf.Tensor]:
    keys, values = column_keys(tuple(columns)), to_columns(rows, columns)
    return {keys[name]: tf.constant(values[name], DTYPES[column.type]) for name, column in columns.items()}


def _rows_of(batch: Any) -> int:
    return int(batch[2].shape[0])


def _median_ms(call: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(_WARM_UP + _CALLS):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return 1000 * median(seconds[_WARM_UP:])
