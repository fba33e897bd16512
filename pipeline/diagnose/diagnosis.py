"""Diagnoses the input of a training: measures each stage alone, all stages together, and candidate settings."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from fullpass.base.processes import usable_cores
from fullpass.pipeline.diagnose.profiled_training import ProfiledTraining, Training
from fullpass.pipeline.diagnose.rates import Rate
from fullpass.pipeline.diagnose.settings import InputSettings, input_settings
from fullpass.pipeline.diagnose.stages import MODEL, Stage, stages
from fullpass.pipeline.diagnose.trials import Candidate, Trial, candidates, try_settings
from fullpass.trainer.fit.strategy import describe_devices

INPUT_BOUND, PARTLY = 0.20, 0.05
"""Shares of a training's time in which the model waits for input: the thresholds of TensorFlow Profiler's analyzer of
input pipelines, https://www.tensorflow.org/guide/profiler."""

_SAMPLE_SHARE, _STAGE_SHARE = 0.1, 0.3


@dataclass(frozen=True)
class Diagnosis:
    """The breakdown of the time of a training.

    Attributes:
        epochs: The maximum number of epochs, over which the time of the first reading is spread.
        written: The trial of the YAML as written, with all stages together.
        epoch_rate: The rate of its updates alone, without the first reading.
        trials: The settings that were tried, the fastest first.
        served: Whether `input.service` lets other machines read and parse, which is not measured.
    """

    rows: int
    files: int
    bytes: int
    sampled: int
    setting: InputSettings
    epochs: int
    devices: str
    cores: int
    stages: tuple[Stage, ...]
    written: Trial
    epoch_rate: Rate
    trials: tuple[Trial, ...]
    untried: tuple[Candidate, ...]
    served: bool = False

    @property
    def step_seconds(self) -> float:
        """The seconds per update with all of its input, including the first reading."""
        return self.setting.batch_size / self.written.per_second

    @property
    def model_seconds(self) -> float:
        """The seconds per update of the model alone, as if the input took no time."""
        return next(stage.step_seconds for stage in self.stages if stage.name == MODEL)

    @property
    def input_share(self) -> float:
        """The share of the training time that is lost to input, 0 .. 1.

        This is the measured wait, limited to the difference between a step with input and a step without. On few cores,
        a batch may be late because the model itself occupies them.
        """
        return min(self.written.wait, max(0.0, 1 - self.model_seconds / self.step_seconds))

    @property
    def bound(self) -> str:
        """input-bound, partly input-bound or compute-bound."""
        if self.input_share >= INPUT_BOUND:
            return "input-bound"
        return "partly input-bound" if self.input_share >= PARTLY else "compute-bound"

    @property
    def stage(self) -> Stage:
        """The slowest stage: an input stage if the model waits for input, else the model."""
        wanted = [stage for stage in self.stages if (stage.name == MODEL) == (self.bound == "compute-bound")]
        return max(wanted, key=lambda stage: stage.step_seconds)

    @property
    def best(self) -> Trial | None:
        """The fastest setting that is worth it; None if there is none."""
        return next((trial for trial in self.trials if trial.worth_it), None)


def diagnose_training(training: Training, *, seconds: float, log: Callable[[str], None] = lambda _: None) -> Diagnosis:
    """Measures a training's input and model for about `seconds`, plus the time to build the model and its graph.

    `log` is called with the name of each measurement as it begins.

    Raises:
        UserError: The examples do not match the YAML, or there are none.
    """
    deadline = time.perf_counter() + seconds
    with tempfile.TemporaryDirectory(prefix="fullpass-diagnose-") as folder:
        log("a sample of the records")
        profiled = ProfiledTraining(training, Path(folder), _SAMPLE_SHARE * seconds)
        setting = input_settings(profiled, {})
        log("each stage alone")
        alone = stages(profiled, setting, _STAGE_SHARE * seconds)
        wanted = candidates(profiled, max(alone, key=lambda stage: stage.step_seconds).name)
        left = (1 - _SAMPLE_SHARE - _STAGE_SHARE) * seconds
        found = try_settings(profiled, wanted, left, deadline, log)
        return Diagnosis(
            rows=training.rows,
            files=len(training.files),
            bytes=profiled.bytes,
            sampled=profiled.sampled,
            setting=setting,
            epochs=training.spec.config.training.max_epochs,
            devices=describe_devices(tf.distribute.get_strategy()),
            cores=usable_cores(),
            stages=tuple(alone),
            written=found.written,
            epoch_rate=found.epoch_rate,
            trials=tuple(sorted(found.trials, key=lambda trial: -trial.gain)),
            untried=tuple(found.untried),
            served=training.spec.config.input.service is not None,
        )
