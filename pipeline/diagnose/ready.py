"""Choices of places made ready, and all of them measured in turn, so that what else the machine does meets each."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from pipeline.diagnose.cost import LATENCY_BATCH, Cost
from preprocessing.columns import RawColumn, serving_columns
from preprocessing.config import PreprocessingConfig
from preprocessing.raw_text import RawText
from trainer.config import TrainerConfig
from trainer.export import export_model
from trainer.inputs import apply_model, feature_names, model_inputs, transformed_outputs
from trainer.models.build import build_model
from trainer.optimizer import make_optimizer
from trainer.order import Order
from trainer.placement import with_preprocessing
from trainer.raw_columns import DTYPES
from trainer.run_fn import Data
from trainer.samples import Row, read_samples, to_columns, to_row
from trainer.signatures import SERVING_RAW, Served, column_keys
from trainer.strategy import precision
from trainer.tasks import logit_columns, loss_of, with_head

_ROUNDS = 5
_SECONDS = 0.4
_CALLS = 20
_WARM_UP = 5

Call = Callable[[], Any]


class Flow:
    """The batches of a training, endless."""

    def __init__(self, data: Data):
        """Takes an epoch, which warms up."""
        self._steps = data.train.steps(data.batch_size)
        order = Order(batch_size=data.batch_size, shuffle=data.train.counts.rows)
        self._batches = iter(data.train.split.batches(order))
        self._epoch()

    def per_second(self) -> float:
        """Returns examples per second, of whole epochs, behind one that takes what was prefetched."""
        self._epoch()
        taken, started = 0, time.perf_counter()
        while time.perf_counter() - started < _SECONDS:
            taken += self._epoch()
        return taken / (time.perf_counter() - started)

    def _epoch(self) -> int:
        return sum(int(next(self._batches)[2].shape[0]) for _ in range(self._steps))


@dataclass(frozen=True)
class Ready:
    """One choice of places, ready to be measured; what is not said here is as in Cost.

    Attributes:
        streamed: the input from files.
        later: the input from where rows are kept.
        update: makes an update.
        one: makes a request of one row to the export.
        many: makes a request of LATENCY_BATCH rows.
    """

    place: str
    written_bytes: int
    start_seconds: float
    seconds_per_row: float
    read_bytes: int
    kept: str
    memory_bytes: int
    streamed: Flow
    later: Flow
    update: Call
    one: Call
    many: Call


def measure_in_turn(choices: Sequence[Ready]) -> list[Cost]:
    """Returns what each choice costs: medians of rounds in which all are measured, one after the other."""
    rounds = [[_measured(choice) for choice in choices] for _ in range(_ROUNDS)]
    return [
        Cost(
            place=choice.place,
            written_bytes=choice.written_bytes,
            start_seconds=choice.start_seconds,
            seconds_per_row=choice.seconds_per_row,
            read_bytes=choice.read_bytes,
            kept=choice.kept,
            memory_bytes=choice.memory_bytes,
            **{name: median(found[name] for found in figures) for name in figures[0]},
        )
        for choice, figures in zip(choices, zip(*rounds, strict=True), strict=True)
    ]


def _measured(choice: Ready) -> dict[str, float]:
    return {
        "streamed": choice.streamed.per_second(),
        "later": choice.later.per_second(),
        "step_ms": _median_ms(choice.update),
        "row_ms": _median_ms(choice.one),
        "batch_ms": _median_ms(choice.many),
    }


def train_step(
    data: Data, preprocessing: PreprocessingConfig, config: TrainerConfig, tft_output: tft.TFTransformOutput
) -> tuple[Call, Served]:
    """Returns what makes an update on a batch that is there already, and the model to serve."""
    task, counts, training = preprocessing.label.task, data.train.counts, config.training
    features = transformed_outputs(preprocessing, tft_output)
    with precision(training) as policy:
        inputs = model_inputs(features, tft_output)
        network = build_model(inputs, task=task, classes=logit_columns(task, len(data.names)), config=config.model)
        network = with_head(network, task, counts, data.factors)
        model = with_preprocessing(network, data.in_model)
        optimizer = make_optimizer(training, 1000, policy)
        optimizer.build(model.trainable_variables)
    deviation = counts.label_deviation if task == "regression" else 1.0
    loss = loss_of(task, label_smoothing=training.label_smoothing, label_deviation=deviation)

    @tf.function(autograph=False, reduce_retracing=True)
    def update(batch: dict[str, tf.Tensor], label: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(weight * loss(label, apply_model(model, batch, training=True)))
            scaled = optimizer.scale_loss(value)
        optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
        return value

    batch = next(iter(data.train.split.batches(Order(batch_size=data.batch_size))))
    served = Served(
        model=network,
        tft_output=tft_output,
        columns=serving_columns(preprocessing),
        features=feature_names(features),
        label=preprocessing.label,
        names=data.names,
    )
    return lambda: update(*batch).numpy(), served


def requests(served: Served, graph: str) -> tuple[Call, Call]:
    """Returns what asks the export for one row, and for many, that the full pass over `graph` has kept."""
    with tempfile.TemporaryDirectory() as folder:
        samples = read_samples(graph)
        export_model(served, f"{folder}/export", name="places", text=RawText(), samples=samples)
        # What is loaded needs its files no more.
        loaded = tf.saved_model.load(f"{folder}/export")
    rows = [to_row(example, served.columns) for example in samples]
    one = _request(rows[:1], served.columns)
    many = _request([rows[i % len(rows)] for i in range(LATENCY_BATCH)], served.columns)

    def ask(given: Mapping[str, tf.Tensor]) -> Any:
        return loaded.signatures[SERVING_RAW](**given)["prediction"].numpy()

    return lambda: ask(one), lambda: ask(many)


def _request(rows: Sequence[Row], columns: Mapping[str, RawColumn]) -> dict[str, tf.Tensor]:
    keys, values = column_keys(tuple(columns)), to_columns(rows, columns)
    return {keys[name]: tf.constant(values[name], DTYPES[column.type]) for name, column in columns.items()}


def _median_ms(call: Call) -> float:
    for _ in range(_WARM_UP):
        call()
    return 1000 * median(_seconds(call) for _ in range(_CALLS))


def _seconds(call: Call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
