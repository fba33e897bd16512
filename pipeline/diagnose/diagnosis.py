"""Diagnoses the input of a training: measures each stage, all together, and candidate settings; formats the result."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from fullpass.base.processes import usable_cores
from fullpass.pipeline.diagnose.profiled_training import DiagnosedTraining, ProfiledTraining
from fullpass.pipeline.diagnose.settings import InputSettings, input_settings
from fullpass.pipeline.diagnose.stages import MODEL, NOTHING, ONCE, STAGES, TRANSFORM, Stage, stages
from fullpass.pipeline.diagnose.trials import WORTH_IT, Trial, candidates, try_settings
from fullpass.pipeline.printing import aligned
from fullpass.trainer.fit.strategy import describe_devices

INPUT_BOUND, PARTLY = 0.20, 0.05
"""Shares of a training's time in which the model waits for input: the thresholds of TensorFlow Profiler's analyzer of
input pipelines, https://www.tensorflow.org/guide/profiler."""

_SAMPLE_SHARE = 0.1
"""The share of the time for the sample: on a slow disk, a tenth still reads enough records for a batch."""
_STAGE_SHARE = 0.3
"""The share of the time for the stages; the trials, which decide, have the rest."""


@dataclass(frozen=True)
class Diagnosis:
    """The breakdown of the time of a training.

    Attributes:
        epochs: The maximum number of epochs, over which the time of the first reading is spread.
        written: The trial of the YAML as written, with all stages together.
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
    trials: tuple[Trial, ...]
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


def diagnose_training(
    training: DiagnosedTraining, *, seconds: float, log: Callable[[str], None] = lambda _: None
) -> Diagnosis:
    """Measures a training's input and model for about `seconds`, plus the time to build the model and its graph.

    `log` is called with the name of each measurement as it begins.

    Raises:
        UserError: The examples do not match the YAML, or there are none.
    """
    with tempfile.TemporaryDirectory(prefix="fullpass-diagnose-") as folder:
        log("a sample of the records")
        profiled = ProfiledTraining(training, Path(folder), _SAMPLE_SHARE * seconds)
        setting = input_settings(profiled, {})
        log("each stage alone")
        alone = stages(profiled, setting, _STAGE_SHARE * seconds)
        left = (1 - _SAMPLE_SHARE - _STAGE_SHARE) * seconds
        written, *others = try_settings(profiled, list(candidates(profiled)), left, log)
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
            written=written,
            trials=tuple(sorted(others, key=lambda trial: -trial.gain)),
            served=training.spec.config.input.service is not None,
        )


_KEPT = {
    "memory": "rows are kept in memory after they were read once",
    "disk": "rows are kept in blocks on disk after they were read once",
    "files": "rows are read from the files in every epoch",
}
_HEAD = ("stage", "examples/s", "ms per step", "share", "cores")


def diagnosis_lines(diagnosis: Diagnosis) -> str:
    """Returns the diagnosis as lines for people."""
    return "\n".join(
        [*_header_lines(diagnosis), "", *_stage_lines(diagnosis), "", *_trial_lines(diagnosis), "", *verdict(diagnosis)]
    )


def verdict(diagnosis: Diagnosis) -> Iterator[str]:
    """Yields the bottleneck and the recommended settings."""
    d, stage = diagnosis, diagnosis.stage
    share = stage.step_seconds / sum(each.step_seconds for each in d.stages)
    most = "Most" if d.bound == "compute-bound" else "Of the input, most"
    alone, step = f"{1000 * d.model_seconds:.3g}", f"{1000 * d.step_seconds:.3g}"
    left = f"a step would take {alone} ms instead of {step}"
    if d.model_seconds >= d.step_seconds:
        left = f"a step would still take {step} ms, because the model alone was measured at {alone} ms"
    yield (
        f"Verdict: {d.bound}. The model waits for input during {d.written.wait:.0%} of the training; if input cost "
        f"nothing, {left}. "
        f"{most} time goes to {stage.name} ({STAGES[stage.name]}): "
        f"{1000 * stage.step_seconds:.3g} ms per step, {share:.0%} of the stages' sum."
    )
    if d.best is not None:
        speeds = f"{d.written.per_second:,.0f} -> {d.best.per_second:,.0f} examples/s, {d.best.gain:.1f} times"
        yield f"Do: {d.best.candidate.text}. {speeds}, as tried; {d.best.candidate.why}."
        if any(path.startswith("data.records.") for path in d.best.candidate.changes):
            yield "Then `fullpass run`: the records are written anew."
    elif d.trials and d.trials[0].gain >= WORTH_IT:
        yield (
            f"Do: nothing yet. {d.trials[0].candidate.text} was {d.trials[0].gain:.2f} times as fast, but not in every "
            "round, which may be chance; measure with more --seconds."
        )
    elif d.bound == "compute-bound":
        yield "Do: nothing about the input; no setting of it makes this training faster by a tenth."
    else:
        yield "Do: leave the settings as they are; none that was tried makes this training faster by a tenth."
    if stage.name == TRANSFORM:
        yield "Not tried: `compute_at: transform`, which computes features once, when examples are written."


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Returns the diagnosis for programs; times in seconds."""
    d = diagnosis
    return {
        "bound": d.bound,
        "stage": d.stage.name,
        "wait_share": d.written.wait,
        "lost_share": d.input_share,
        "step_seconds": d.step_seconds,
        "examples_per_second": d.written.per_second,
        "batch_size": d.setting.batch_size,
        "readers": d.setting.readers,
        "kept": d.setting.kept,
        "service_left_out": d.served,
        "epochs": d.epochs,
        "data": {"rows": d.rows, "files": d.files, "bytes": d.bytes, "sampled": d.sampled},
        "machine": {"device": d.devices, "cores": d.cores},
        "stages": [
            {
                "name": stage.name,
                "in_every_epoch": stage.name not in ONCE,
                "examples_per_second": stage.rate.per_second,
                "step_seconds": stage.step_seconds,
                "cores": stage.rate.cores,
            }
            for stage in d.stages
        ],
        "trials": [
            {
                "changes": dict(trial.candidate.changes),
                "why": trial.candidate.why,
                "examples_per_second": trial.per_second,
                "gain": trial.gain,
                "wait_share": trial.wait,
            }
            for trial in d.trials
        ],
        "recommended": dict(d.best.candidate.changes) if d.best else {},
    }


def _header_lines(d: Diagnosis) -> Iterator[str]:
    yield (
        f"{d.rows:,} examples in {d.files:,} file{'s' * (d.files != 1)} of {d.bytes / 1e6:,.1f} MB in all; batches of "
        f"{d.setting.batch_size:,}, {d.epochs} epoch{'s' * (d.epochs != 1)}, {d.setting.readers} "
        f"reader{'s' * (d.setting.readers != 1)}; one {d.devices}, {d.cores} cores."
    )
    spread = "" if d.setting.kept == "files" else f": the cost of reading them is spread over {d.epochs} epochs"
    yield f"{_KEPT[d.setting.kept].capitalize()}{spread}."
    if d.served:
        yield "input.service is not used: the work of its workers is measured on this machine."


def _stage_lines(d: Diagnosis) -> Sequence[str]:
    total = sum(stage.step_seconds for stage in d.stages)
    rows: list[tuple[str, ...]] = [_HEAD]
    for stage in d.stages:
        rate, share = stage.rate, f"{stage.step_seconds / total:.0%}"
        if rate.seconds <= NOTHING:
            rows.append((stage.name, "", "0", "0%", ""))
        else:
            rows.append((stage.name, *_cells(rate.per_second, stage.step_seconds, share, rate.cores)))
    wait = f"{d.written.wait:.0%} wait"
    rows.append(("together", *_cells(d.written.per_second, d.step_seconds, wait, d.written.cores)))
    return aligned(rows, right=True)


def _cells(per_second: float, step_seconds: float, share: str, cores: float) -> tuple[str, ...]:
    return f"{per_second:,.0f}", f"{1000 * step_seconds:.3g}", share, f"{cores:.1f}"


def _trial_lines(d: Diagnosis) -> Iterator[str]:
    rows = [("tried", "examples/s", "times", "wait")]
    rows += [
        (trial.candidate.text, f"{trial.per_second:,.0f}", f"{trial.gain:.2f}", f"{trial.wait:.0%}")
        for trial in (d.written, *d.trials)
    ]
    yield from aligned(rows, right=True)
