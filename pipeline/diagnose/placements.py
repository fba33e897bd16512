"""`fullpass diagnose FILE --compute-at`: compares where to compute the features, on a sample of the data.

It computes all features when examples are written, then in the input function, then in the model. If the YAML mixes
these placements, it also measures the features as written. The speed of the training is measured as in the rest of the
diagnosis, and the latency of requests to the export in addition.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.base.errors import UserError
from fullpass.base.json_text import to_json_text
from fullpass.base.processes import usable_cores
from fullpass.base.user_modules import use_modules_of
from fullpass.components.ingest.spans.spans import find_window
from fullpass.components.transform.full_pass import FullPass, finish, run, transform
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.plan_shards import to_records
from fullpass.pipeline.authoring.profile.sample import read_sample
from fullpass.pipeline.diagnose.profiled_training import ProfiledTraining, Training, all_at
from fullpass.pipeline.diagnose.rates import seconds_of
from fullpass.pipeline.diagnose.report import aligned
from fullpass.pipeline.diagnose.settings import Speed, input_settings, measured_speed
from fullpass.pipeline.running.build import with_absolute_files
from fullpass.preprocessing.columns.compute_at import COMPUTE_AT_ORDER, compute_at_by_feature, materializes
from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from fullpass.trainer.config import TrainingSpec
from fullpass.trainer.export.export import export_model
from fullpass.trainer.export.export_files import SERVING_RAW
from fullpass.trainer.export.sample_requests import read_samples, to_columns, to_row
from fullpass.trainer.export.signatures import column_keys, served_model
from fullpass.trainer.input.raw_tensors import DTYPES

MIXTURE = "as written"
"""The name of the placement in the YAML, if it mixes several."""
LATENCY_BATCH = 256
_EVAL_EVERY = 5
_SAMPLE_SECONDS = 60.0
_ROUNDS, _SECONDS = 5, 0.8
_WARM_UP, _CALLS = 5, 20
_CLOSE = 0.05


@dataclass(frozen=True)
class PlacementCost:
    """The cost of one placement of the features, measured on the sample.

    Attributes:
        compute_at: The value of `compute_at`: transform, input or model; for a mixture, a description.
        written_bytes: The bytes of the transformed examples; 0 if none are written.
        start_seconds: The fixed seconds of computing and writing, for any number of rows.
        seconds_per_row: The seconds that each row adds to them.
        read_bytes: The bytes of the files that training reads.
        kept: Where the train rows of the full data are kept between epochs: memory, disk, or files, which keeps none.
        first: The examples per second of the reading before the first epoch.
        epochs: The examples per second of the updates, their input included.
        train_seconds: The seconds per example of a whole training.
        row_ms: The milliseconds of a request with one row to the export.
        batch_ms: The milliseconds of a request with LATENCY_BATCH rows.
    """

    compute_at: str
    written_bytes: int
    start_seconds: float
    seconds_per_row: float
    read_bytes: int
    kept: str
    first: float
    epochs: float
    train_seconds: float
    row_ms: float
    batch_ms: float


@dataclass(frozen=True)
class Comparison:
    """The measurements of all placements on a sample."""

    rows: int
    train_rows: int
    total: int
    batch_size: int
    epochs: int
    analysis_seconds: float
    costs: tuple[PlacementCost, ...]

    @property
    def run_seconds(self) -> Mapping[str, float]:
        """The estimated time to write, read and train on all data, by placement."""
        trained = self.train_rows * self.total / self.rows
        return {
            c.compute_at: c.start_seconds + c.seconds_per_row * self.total + trained * c.train_seconds
            for c in self.costs
        }

    @property
    def recommended(self) -> PlacementCost:
        """The placement with the shortest run; of those within 5%, the one that writes least."""
        seconds = self.run_seconds
        close = [c for c in self.costs if seconds[c.compute_at] <= min(seconds.values()) * (1 + _CLOSE)]
        return min(close, key=lambda c: (c.written_bytes, seconds[c.compute_at]))


def compare_placements(loaded: Loaded, *, rows: int, say: Callable[[str], None] = lambda _: None) -> Comparison:
    """Measures all features at each `compute_at`, and the placement of the YAML if it is a mixture.

    Raises:
        UserError: The data cannot be read, or is too little to train on.
    """
    use_modules_of(loaded.folder)
    config = loaded.config
    preprocessing = with_absolute_files(config.preprocessing_config, loaded.resolve)
    with tempfile.TemporaryDirectory() as folder:
        full_pass, total = _write_sample(loaded, preprocessing, rows, folder)
        say(f"analysis of {full_pass.rows['train']:,} rows")
        analysis_seconds = seconds_of(lambda: _run_beam(lambda pipeline: run(full_pass, pipeline)))
        finish(full_pass)
        sampled, train_rows = sum(full_pass.rows.values()), full_pass.rows["train"]
        choices: dict[str, PreprocessingConfig] = {name: all_at(preprocessing, name) for name in COMPUTE_AT_ORDER}
        if len(set(compute_at_by_feature(preprocessing).values())) > 1:
            choices[MIXTURE] = preprocessing
        trials = []
        for name, placed in choices.items():
            say(f"compute_at: {name}")
            trial = replace(full_pass, preprocessing=placed, transformed=f"{folder}/{name}")
            spec = TrainingSpec(placed, config.trainer_config, tft.TFTransformOutput(trial.graph))
            trials.append(_Trial(name, trial, spec, round(train_rows * total / sampled)))
        say("all of them in turn")
        rounds = [[trial.measured() for trial in trials] for _ in range(_ROUNDS)]
        batch_size = trials[0].setting.batch_size
    costs = tuple(_medians(costs) for costs in zip(*rounds, strict=True))
    return Comparison(sampled, train_rows, total, batch_size, config.training.max_epochs, analysis_seconds, costs)


def table(comparison: Comparison) -> str:
    """Returns the comparison as lines for people."""
    m, seconds = comparison, comparison.run_seconds
    gpu = "a" if tf.config.list_physical_devices("GPU") else "no"
    head = (
        f"{m.rows:,} rows measured, {m.train_rows:,} of them to train on, in batches of {m.batch_size:,}, on "
        f"{usable_cores()} cores and {gpu} GPU. The analysis of the sample took {m.analysis_seconds:.1f} s, whatever "
        "the placement."
    )
    lines = [["", *(cost.compute_at for cost in m.costs)]]
    lines += [[title, *(cell(cost) for cost in m.costs)] for title, cell in _ROWS]
    lines.append([f"run over {m.total:,} rows, {m.epochs} epochs, s", *(f"{s:,.0f}" for s in seconds.values())])
    return "\n".join([head, "", *aligned(lines), "", *_advice(m)])


def report_json(comparison: Comparison) -> str:
    """Returns the comparison as JSON text."""
    estimates = {"run_seconds": comparison.run_seconds, "recommended": comparison.recommended.compute_at}
    return to_json_text({**asdict(comparison), **estimates}, indent=2)


_ROWS: tuple[tuple[str, Callable[[PlacementCost], str]], ...] = (
    ("written to disk, MB", lambda c: f"{c.written_bytes / 1e6:,.2f}"),
    ("to begin writing, s", lambda c: f"{c.start_seconds:,.1f}"),
    ("to write a million rows, s", lambda c: f"{c.seconds_per_row * 1e6:,.0f}"),
    ("read by training, MB", lambda c: f"{c.read_bytes / 1e6:,.2f}"),
    ("first reading, examples/s", lambda c: f"{c.first:,.0f}"),
    ("all train rows are kept in", lambda c: "nothing" if c.kept == "files" else c.kept),
    ("updates with their input, examples/s", lambda c: f"{c.epochs:,.0f}"),
    ("request of 1 row, p50 ms", lambda c: f"{c.row_ms:,.2f}"),
    (f"request of {LATENCY_BATCH} rows, p50 ms", lambda c: f"{c.batch_ms:,.2f}"),
)

_REASONS = {
    "transform": "the features are computed once, and read in every epoch",
    "input": "the features are computed as training reads, and nothing is written",
    "model": "the features are computed in the training step, and nothing is written",
    MIXTURE: "each feature is computed where the YAML says",
}


def _advice(comparison: Comparison) -> list[str]:
    seconds, best = comparison.run_seconds, comparison.recommended
    name = best.compute_at
    to_write = "keep each `compute_at` of the YAML" if name == MIXTURE else f"`input: {{compute_at: {name}}}`"
    took = f"{seconds[name]:,.0f} s for {comparison.epochs} epochs, writing included"
    lines = [f"Advice: {to_write}, {took}: {_REASONS[name]}."]
    for cost in comparison.costs:
        if cost is not best:
            more = (cost.written_bytes - best.written_bytes) / 1e6
            disk = f", and {abs(more):,.2f} MB {'more' if more > 0 else 'less'} on disk" if more else ""
            lines.append(f"  {cost.compute_at}: {seconds[cost.compute_at] / seconds[name]:.2f} times as long{disk}")
    return lines


def _write_sample(loaded: Loaded, preprocessing: PreprocessingConfig, rows: int, folder: str) -> tuple[FullPass, int]:
    """Writes a sample of the data as raw examples, every fifth row to eval.

    Returns:
        The full pass over the sample, not yet run, and the number of rows of all data.
    """
    columns = raw_columns(preprocessing)
    source = loaded.config.data.source
    sample = read_sample(find_window(loaded.config.data, loaded.resolve).files, source, list(columns), rows=rows)
    if sample.rows < 2 * _EVAL_EVERY:
        raise UserError(f"data.source: {sample.rows} rows can be read; measuring takes {2 * _EVAL_EVERY} at least.")
    records = to_records(loaded, sample, columns).to_pylist()
    splits = {"train": [r for i, r in enumerate(records) if i % _EVAL_EVERY], "eval": records[::_EVAL_EVERY]}
    files = {name: f"{folder}/raw-{name}.tfrecord" for name in splits}
    for name, chosen in splits.items():
        with tf.io.TFRecordWriter(files[name]) as writer:
            for record in chosen:
                writer.write(record)
    full_pass = FullPass(
        preprocessing=preprocessing,
        schema=raw_schema(preprocessing),
        examples={name: [file] for name, file in files.items()},
        rows={name: len(chosen) for name, chosen in splits.items()},
        graph=f"{folder}/graph",
        transformed=None,
        layout=loaded.config.data.records.layout(gzip=False),
        temporary=f"{folder}/temporary",
    )
    return full_pass, sample.total or sample.rows


class _Trial:
    """One placement of the features, ready to be measured."""

    def __init__(self, name: str, full_pass: FullPass, spec: TrainingSpec, rows: int):
        """Writes the examples, builds the model, exports it, and reads the sample once; all data has `rows` rows."""
        files: tuple[str, ...] = tuple(full_pass.examples["train"])
        self._cost: dict[str, Any] = {"written_bytes": 0, "start_seconds": 0.0, "seconds_per_row": 0.0}
        if materializes(full_pass.preprocessing):
            self._cost = _write_examples(full_pass)
            files = tuple(sorted(map(str, Path(str(full_pass.transformed), "Split-train").iterdir())))
        folder = Path(tempfile.mkdtemp(dir=Path(full_pass.graph).parent))
        self._profiled = ProfiledTraining(Training(files, rows, spec), folder, _SAMPLE_SECONDS)
        self.setting = input_settings(self._profiled, {})
        self._epochs = spec.config.training.max_epochs
        self._cost |= {"compute_at": name, "read_bytes": self._profiled.bytes, "kept": self.setting.kept}
        served = served_model(spec, self._profiled.built.network, self._profiled.names)
        samples = read_samples(full_pass.graph)
        export_model(served, f"{folder}/export", name="placement", source={}, samples=samples)
        self._export = tf.saved_model.load(f"{folder}/export")
        rows_of = [to_row(example, served.columns) for example in samples]
        keys = column_keys(tuple(served.columns))
        self._requests: list[dict[str, tf.Tensor]] = []
        for count in (1, LATENCY_BATCH):
            values = to_columns([rows_of[i % len(rows_of)] for i in range(count)], served.columns)
            self._requests.append({keys[n]: tf.constant(values[n], DTYPES[c.type]) for n, c in served.columns.items()})

    def measured(self) -> PlacementCost:
        """Measures everything once."""
        speed: Speed = measured_speed(self._profiled, self.setting, _SECONDS, {})
        row_ms, batch_ms = map(self._latency, self._requests)
        return PlacementCost(
            **self._cost,
            first=speed.first.per_second,
            epochs=speed.epochs.per_second,
            train_seconds=speed.seconds_per_row(self._epochs) * self._epochs,
            row_ms=row_ms,
            batch_ms=batch_ms,
        )

    def _latency(self, request: Mapping[str, tf.Tensor]) -> float:
        """Returns the median milliseconds of a request to the export."""
        predict = self._export.signatures[SERVING_RAW]
        seconds = [seconds_of(lambda: predict(**request)["prediction"].numpy()) for _ in range(_WARM_UP + _CALLS)]
        return 1000 * median(seconds[_WARM_UP:])


def _write_examples(full_pass: FullPass) -> dict[str, Any]:
    """Measures transforming and writing eval alone, then both splits; the difference is the time for train."""
    eval_only = {"eval": full_pass.examples["eval"]}
    few = replace(full_pass, examples=eval_only, transformed=f"{full_pass.transformed}-eval")
    few_seconds = seconds_of(lambda: _run_beam(lambda pipeline: transform(few, pipeline)))
    all_seconds = seconds_of(lambda: _run_beam(lambda pipeline: transform(full_pass, pipeline)))
    finish(full_pass)
    per_row = max(0.0, all_seconds - few_seconds) / full_pass.rows["train"]
    start = max(0.0, all_seconds - per_row * sum(full_pass.rows.values()))
    files = Path(str(full_pass.transformed)).rglob("*.tfrecord")
    size = sum(file.stat().st_size for file in files)
    return {"written_bytes": size, "start_seconds": start, "seconds_per_row": per_row}


def _medians(costs: tuple[PlacementCost, ...]) -> PlacementCost:
    measured = ("first", "epochs", "train_seconds", "row_ms", "batch_ms")
    return replace(costs[0], **{name: median(getattr(cost, name) for cost in costs) for name in measured})


def _run_beam(build: Callable[[beam.Pipeline], object]) -> None:
    with local_pipeline() as pipeline:
        build(pipeline)
