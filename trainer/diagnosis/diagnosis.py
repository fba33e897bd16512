"""Diagnoses the input of a training: every stage alone, all together, and the settings that were tried."""

import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from preprocessing.cores import usable_cores
from trainer.diagnosis.candidates import Candidate, candidates
from trainer.diagnosis.rates import Rate
from trainer.diagnosis.settings import Setting, setting_of
from trainer.diagnosis.stages import MODEL, Stage, stages
from trainer.diagnosis.subject import Subject, Training
from trainer.diagnosis.trials import Trial, try_settings
from trainer.strategy import describe

INPUT_BOUND, PARTLY = 0.20, 0.05
"""Shares of a training's time in which the model waits for input: the thresholds of TensorFlow Profiler's analyzer of
input pipelines, https://www.tensorflow.org/guide/profiler."""

_SAMPLE_SHARE, _STAGE_SHARE = 0.1, 0.3


@dataclass(frozen=True)
class Diagnosis:
    """Where the time of a training goes.

    Attributes:
        rows: of the train split.
        files: it lies in.
        bytes: they take.
        sampled: rows of the sample.
        setting: how rows reach the model as the YAML says.
        epochs: of training, at most; the first reading is spread over them.
        devices: that the model was measured on.
        cores: of the machine.
        stages: each alone.
        written: the training as the YAML says, with all stages together.
        epoch_rate: of it, the updates alone, without the first reading.
        trials: settings tried, the fastest first.
        untried: settings for which there was no time.
        served: whether `input.service` lets other machines read and parse, which is not measured.
    """

    rows: int
    files: int
    bytes: int
    sampled: int
    setting: Setting
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
        """An update with all of its input, the first reading included."""
        return self.setting.batch_size / self.written.per_second

    @property
    def model_seconds(self) -> float:
        """An update alone: what would be left if the input cost nothing."""
        return next(stage.step_seconds for stage in self.stages if stage.name == MODEL)

    @property
    def lost(self) -> float:
        """The share of the training's time that input costs it, 0 .. 1.

        That is the wait, and no more than what lies between a step with input and one without: where few cores do both,
        a batch may come late because the model itself has held them.
        """
        return min(self.written.wait, max(0.0, 1 - self.model_seconds / self.step_seconds))

    @property
    def bound(self) -> str:
        """input-bound, partly input-bound or compute-bound."""
        if self.lost >= INPUT_BOUND:
            return "input-bound"
        return "partly input-bound" if self.lost >= PARTLY else "compute-bound"

    @property
    def stage(self) -> Stage:
        """The stage to look at: of the input where the model waits for it, else the model."""
        wanted = [stage for stage in self.stages if (stage.name == MODEL) == (self.bound == "compute-bound")]
        return max(wanted, key=lambda stage: stage.step_seconds)

    @property
    def best(self) -> Trial | None:
        """The fastest setting that is worth it and changes nothing of what is learned."""
        return _best(trial for trial in self.trials if trial.candidate.learns_alike)

    @property
    def best_batch_size(self) -> Trial | None:
        """The fastest batch size that is worth it; it changes what is learned."""
        return _best(trial for trial in self.trials if not trial.candidate.learns_alike)


def diagnose_training(training: Training, *, seconds: float, say: Callable[[str], None] = lambda _: None) -> Diagnosis:
    """Measures a training's input and model for about `seconds`; building the model and its graph comes on top.

    Args:
        training: what is diagnosed.
        seconds: for all measurements together.
        say: told what is being measured.

    Raises:
        UserError: The examples are not those of the YAML, or there are none.
    """
    deadline = time.perf_counter() + seconds
    with tempfile.TemporaryDirectory(prefix="fullpass-diagnose-") as folder:
        say("a sample of the records")
        subject = Subject(training, Path(folder), _SAMPLE_SHARE * seconds)
        setting = setting_of(subject, {})
        say("each stage alone")
        alone = stages(subject, setting, _STAGE_SHARE * seconds)
        wanted = candidates(subject, max(alone, key=lambda stage: stage.step_seconds).name)
        left = (1 - _SAMPLE_SHARE - _STAGE_SHARE) * seconds
        found = try_settings(subject, wanted, left, deadline, say)
        return Diagnosis(
            rows=training.rows,
            files=len(training.files),
            bytes=subject.bytes,
            sampled=subject.sampled,
            setting=setting,
            epochs=training.config.training.epochs,
            devices=describe(tf.distribute.get_strategy()),
            cores=usable_cores(),
            stages=tuple(alone),
            written=found.written,
            epoch_rate=found.epoch_rate,
            trials=tuple(sorted(found.trials, key=lambda trial: -trial.gain)),
            untried=tuple(found.untried),
            served=training.config.input.service is not None,
        )


def _best(trials: Iterable[Trial]) -> Trial | None:
    """Returns the fastest that is worth it, of those that were looked at most often."""
    worth = [trial for trial in trials if trial.worth_it]
    return max(worth, key=lambda trial: (trial.rounds, trial.gain), default=None)
