"""Diagnoses the input of a training: every stage alone, all together, and the settings that were tried."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import tensorflow as tf

from preprocessing.cores import usable_cores
from trainer.diagnosis.candidates import Candidate, candidates
from trainer.diagnosis.rates import Rate
from trainer.diagnosis.settings import Setting, Speed, measure, setting_of
from trainer.diagnosis.stages import MODEL, Stage, stages
from trainer.diagnosis.subject import Subject, Training
from trainer.strategy import describe

WORTH_IT = 1.1
"""By how much a setting must raise examples per second before it is recommended."""
INPUT_BOUND, PARTLY = 0.20, 0.05
"""Shares of a training's time in which the model waits for input: the thresholds of TensorFlow Profiler's analyzer of
input pipelines, https://www.tensorflow.org/guide/profiler."""

_SAMPLE_SHARE, _STAGE_SHARE = 0.1, 0.3
ROUNDS = 3
"""In which settings are tried in turn with what is written, if there is time."""
_PLAIN = 2.0
_LEAST_SLICE = 1.0
_TOGETHER_SHARE = 0.25


@dataclass(frozen=True)
class Trial:
    """A setting that was tried.

    Attributes:
        candidate: the setting.
        per_second: examples per second over a training, the first reading included; median.
        gain: times what was measured as written, in turn with it; median of the rounds.
        least_gain: of any round.
        rounds: in which it was measured.
        wait: share of the time in which the model waits for input; median.
    """

    candidate: Candidate
    per_second: float
    gain: float
    wait: float
    least_gain: float
    rounds: int

    @property
    def worth_it(self) -> bool:
        """Whether it makes a training faster by a tenth or more, and not by chance: in all rounds, or twice as fast."""
        return self.gain >= WORTH_IT and self.least_gain > 1 and (self.rounds > 1 or self.gain >= _PLAIN)


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
        worth = [trial for trial in self.trials if trial.candidate.learns_alike and trial.worth_it]
        return max(worth, key=lambda trial: trial.gain, default=None)

    @property
    def best_batch_size(self) -> Trial | None:
        """The fastest batch size that is worth it; it changes what is learned."""
        worth = [trial for trial in self.trials if not trial.candidate.learns_alike and trial.worth_it]
        return max(worth, key=lambda trial: trial.gain, default=None)


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
        # The last of the time is for the settings that helped, all together.
        most = max(1, int((1 - _TOGETHER_SHARE) * left / (ROUNDS * _LEAST_SLICE)) - 1)
        tried, untried = wanted[:most], wanted[most:]
        slice_seconds = (1 - _TOGETHER_SHARE) * left / (ROUNDS * (len(tried) + 1))
        written, speeds, trials = _try(subject, tried, slice_seconds, deadline, say)
        untried = [*tried[len(trials) :], *untried]
        together = _together(trials)
        if together is not None and time.perf_counter() < deadline:
            _, _, more = _try(subject, [together], _TOGETHER_SHARE * left / (ROUNDS * 2), deadline, say)
            trials += more
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
            written=written,
            epoch_rate=speeds[len(speeds) // 2].epochs,
            trials=tuple(sorted(trials, key=lambda trial: -trial.gain)),
            untried=tuple(untried),
        )


def _try(
    subject: Subject, tried: Sequence[Candidate], seconds: float, deadline: float, say: Callable[[str], None]
) -> tuple[Trial, list[Speed], list[Trial]]:
    """Measures settings in turn with what is written, round by round, so that what else the machine does is the same.

    Past the deadline there is no further round, nor, after the first of them, a further setting.

    Returns:
        What is written, its speeds from the slowest to the fastest, and the trials.
    """
    epochs = subject.training.config.training.epochs
    as_written = Candidate({}, "as written")
    settings = [(candidate, setting_of(subject, candidate.changes)) for candidate in (as_written, *tried)]
    speeds: dict[int, list[Speed]] = {}
    for number in range(ROUNDS):
        if number and time.perf_counter() > deadline:
            break
        for i, (candidate, setting) in enumerate(settings):
            if not number and i > 1 and time.perf_counter() > deadline:
                settings = settings[:i]
                break
            say(f"round {number + 1} of {ROUNDS}: {candidate.text}")
            speeds.setdefault(i, []).append(measure(subject, setting, seconds))
    found = [
        Trial(
            candidate,
            per_second=median(speed.per_second(epochs) for speed in speeds[i]),
            gain=median(_gains(speeds[0], speeds[i], epochs)),
            wait=median(speed.wait(epochs) for speed in speeds[i]),
            least_gain=min(_gains(speeds[0], speeds[i], epochs)),
            rounds=len(speeds[i]),
        )
        for i, (candidate, _) in enumerate(settings)
    ]
    return found[0], sorted(speeds[0], key=lambda speed: speed.per_second(epochs)), found[1:]


def _gains(written: Sequence[Speed], tried: Sequence[Speed], epochs: int) -> list[float]:
    return [b.per_second(epochs) / a.per_second(epochs) for a, b in zip(written, tried, strict=True)]


def _together(trials: Sequence[Trial]) -> Candidate | None:
    """Returns the settings that helped as one, of each key the best; None if only one did."""
    helped = [trial for trial in trials if trial.candidate.learns_alike and trial.worth_it]
    if len(helped) < 2:
        return None
    changes: dict[str, object] = {}
    for trial in sorted(helped, key=lambda trial: -trial.gain):
        changes = {**trial.candidate.changes, **changes}
    if any(changes == trial.candidate.changes for trial in helped):
        return None
    return Candidate(changes, "all of these together")
