"""The entry point of TFX's Tuner, which finds the best hyperparameters on transformed examples."""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import keras
import keras_tuner
import tensorflow as tf
from keras_tuner.engine import base_tuner, oracle, trial
from tensorboard.plugins.hparams import api as hparams
from tensorboard.plugins.hparams import api_pb2, summary

from fullpass.base.errors import UserError
from fullpass.base.progress import report
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.config import CheckpointConfig, TrainerConfig
from fullpass.trainer.fit.checkpoints import folder_for, prune_checkpoints, remove_checkpoints, write_json
from fullpass.trainer.fit.fit import OnEpoch
from fullpass.trainer.fit.strategy import choose_strategy
from fullpass.trainer.fit.tensorboard import VALIDATION, CurveWriter
from fullpass.trainer.fit.training_data import TrainingData, load_data, sized
from fullpass.trainer.fit.training_inputs import TrainingInputs, parse_fn_args
from fullpass.trainer.input.workers import TrainingWorkers
from fullpass.trainer.internals.keras_internals import oracle_file, retries_waiting, trial_file, tuner_file
from fullpass.trainer.train import RunOptions, train
from fullpass.trainer.tuning.config import CURVES_ENTRY, CURVES_FOLDER, Choices, Range, TuningConfig
from fullpass.trainer.tuning.search_space import (
    LARGER_IS_BETTER,
    OBJECTIVES,
    decode_choice,
    encode_choices,
    with_values,
)

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs
    from tfx.components.tuner.component import TunerFnResult

_MAX_FAILURES = 10
"""Failed trials in a row after which the search ends: its settings, not chance, are wrong."""
_ITERATIONS = 1000
"""Iterations of Hyperband, more than `tuning.max_trials` ever leaves; that alone limits a search."""
_CLOCK = "clock.json"
_EPOCHS = "training.epochs"


def tuner_fn(fn_args: "FnArgs") -> "TunerFnResult":
    """Returns the search of `custom_config["tuning"]`; the rest of `custom_config` is that of the Trainer.

    The splits are read once for all trials. The state of the search is stored in `custom_config["work"]`, so that an
    interrupted search resumes with its current trial.

    Raises:
        UserError: The data or the configuration do not allow training.
    """
    from tfx.components.tuner.component import TunerFnResult

    inputs = parse_fn_args(fn_args)
    config = inputs.spec.config
    tuning = TuningConfig.model_validate_json(inputs.custom["tuning"])
    strategy = choose_strategy(config.training, config.model.kind)
    workers = TrainingWorkers(strategy)
    if workers.count > 1:
        raise UserError(
            "the Tuner runs on one machine, but TF_CONFIG names several workers. Set it for the Trainer only."
        )
    data = load_data(inputs.train_files, inputs.eval_files, inputs.spec, workers, inputs.validation_files)
    trials = TrialRunner(inputs, data, strategy, tuning, work=_folder(inputs, tuning))
    return TunerFnResult(tuner=Search(trials), fit_kwargs={})


@dataclass(frozen=True)
class TrialRunner:
    """Runs the trials of a search.

    Attributes:
        inputs: The inputs of the Tuner; trials change sections of them.
    """

    inputs: TrainingInputs
    data: TrainingData
    strategy: tf.distribute.Strategy
    tuning: TuningConfig
    work: str

    @property
    def objective(self) -> str:
        """The metric that trials are compared by."""
        task = self.inputs.spec.preprocessing.label.task
        return self.tuning.objective or OBJECTIVES[task][0]

    @property
    def epochs(self) -> int:
        """The maximum number of epochs of a trial."""
        return self.tuning.epochs or self.inputs.spec.config.training.max_epochs

    @property
    def curves(self) -> str:
        """The folder of the curves of all trials, including those of runs before an interruption."""
        return f"{self.work}/{CURVES_FOLDER}"

    def run(self, values: Mapping[str, Any], epochs: int | None, note: str, on_epoch: OnEpoch) -> float:
        """Trains with some hyperparameters and returns the best objective.

        With hyperband, a training with the same values resumes where it ended with fewer epochs. The learning rate
        decays over all epochs that a trial may get.

        Args:
            epochs: The epochs to run; None leaves it to `training.epochs`, which may be searched, and `tuning.epochs`.
        """
        sections, preprocessing = with_values(
            values, self.inputs.custom["trainer"], self.inputs.custom["preprocessing"]
        )
        config = TrainerConfig.model_validate(sections)
        saving = CheckpointConfig(keep=1)
        max_epochs = config.training.epochs
        if self.tuning.epochs is not None:
            searched = config.training.max_epochs if _EPOCHS in values else self.tuning.epochs
            max_epochs = min(self.tuning.epochs, searched)
        training = config.training.model_copy(update={"epochs": max_epochs, "checkpoint": saving, "profile": None})
        spec = replace(
            self.inputs.spec,
            preprocessing=PreprocessingConfig.model_validate(preprocessing),
            config=config.model_copy(update={"training": training}),
        )
        limit = training.max_epochs
        folder = folder_for(f"{self.work}/trials", (), dict(values))
        again = self.tuning.algorithm == "hyperband"
        options = RunOptions(
            report=lambda done, total, unit, words, end: report(done, total, unit, f"{note}, {words}", end),
            on_epoch=on_epoch,
            checkpoints=folder,
            until=min(epochs or limit, limit),
            keep_checkpoint=again,
        )
        keras.backend.clear_session()
        trained = train(sized(self.data, spec), spec, self.strategy, options)
        if not again:
            remove_checkpoints(folder)
        best = max if self.objective in LARGER_IS_BETTER else min
        return float(best(trained.fitted.history[f"val_{self.objective}"]))


class Search(base_tuner.BaseTuner):
    """KerasTuner's search, whose trials train as the Trainer does."""

    def __init__(self, trials: TrialRunner):
        """Resumes the search in the folder of `trials`, or begins it."""
        self._trials = trials
        super().__init__(_oracle(trials), directory=trials.work, project_name="search", overwrite=False)
        self._began = _began(f"{trials.work}/{_CLOCK}")
        if not tf.io.gfile.exists(trials.curves):
            write_search(trials.curves, trials.tuning, trials.objective)

    def save(self) -> None:
        """Saves the search atomically."""
        self.oracle.save()
        write_json(tuner_file(self), self.get_state())

    def search(self, *args: Any, **kwargs: Any) -> None:
        """Runs trials until max_trials or max_seconds is reached.

        Raises:
            UserError: No trial completed.
        """
        self.oracle.create_trial = self._within_limits(self.oracle.create_trial)
        super().search(*args, **kwargs)
        target = self._trials.inputs.custom.get(CURVES_ENTRY)
        if target:
            copy_curves(self._trials.curves, target)
        prune_checkpoints(self._trials.work)
        if tf.io.gfile.exists(f"{self._trials.work}/trials"):
            tf.io.gfile.rmtree(f"{self._trials.work}/trials")
        # get_best_trials also returns failed trials.
        if all(found.status != trial.TrialStatus.COMPLETED for found in self.oracle.trials.values()):
            messages = [found.message for found in self.oracle.trials.values() if found.message]
            last = (
                messages[-1].strip().splitlines()[-1] if messages else "max_seconds elapsed before the first one ended"
            )
            raise UserError(f"no trial of tuning.search completed. The last one: {last}")

    def run_trial(self, trial: trial.Trial, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Trains with the hyperparameters of a trial; returns the objective."""
        given = trial.hyperparameters.values
        values = {path: decode_choice(spec, given[path]) for path, spec in self._trials.tuning.search.items()}
        epochs = given.get("tuner/epochs")  # of hyperband
        note = f"trial {len(self.oracle.trials)} of {self._trials.tuning.max_trials}"
        shown = {path: given[path] for path in values}
        with trial_curves(self._trials.curves, trial.trial_id, shown) as curves:
            objective = self._trials.run(values, epochs, note, curves.write)
        return {self._trials.objective: objective}

    def _within_limits(self, create: Any) -> Any:
        tuning = self._trials.tuning

        def create_trial(tuner_id: str) -> trial.Trial:
            waiting = retries_waiting(self.oracle)
            over = tuning.max_seconds is not None and time.time() - self._began >= tuning.max_seconds
            if not waiting and (over or len(self.oracle.trials) >= tuning.max_trials):
                return trial.Trial(self.oracle.get_space(), trial_id="none", status=trial.TrialStatus.STOPPED)
            return create(tuner_id)

        return create_trial


class _SavedWhole(oracle.Oracle):
    """Writes files atomically: if KerasTuner's own writes are killed midway, a search cannot resume from the file."""

    def save(self) -> None:
        write_json(oracle_file(self), self.get_state())

    def _save_trial(self, trial: trial.Trial) -> None:
        write_json(trial_file(self, trial.trial_id), trial.get_state())


class _Random(_SavedWhole, keras_tuner.oracles.RandomSearchOracle):
    pass


class _Bayesian(_SavedWhole, keras_tuner.oracles.BayesianOptimizationOracle):
    pass


class _Hyperband(_SavedWhole, keras_tuner.oracles.HyperbandOracle):
    pass


def _oracle(trials: TrialRunner) -> oracle.Oracle:
    tuning = trials.tuning
    direction = "max" if trials.objective in LARGER_IS_BETTER else "min"
    space = keras_tuner.HyperParameters()
    for path, spec in tuning.search.items():
        _declare(space, path, spec)
    common = {
        "objective": keras_tuner.Objective(trials.objective, direction),
        "seed": tuning.seed,
        "hyperparameters": space,
        "allow_new_entries": False,
        "max_consecutive_failed_trials": _MAX_FAILURES,
    }
    if tuning.algorithm == "random":
        return _Random(max_trials=tuning.max_trials, **common)
    if tuning.algorithm == "bayesian":
        return _Bayesian(max_trials=tuning.max_trials, **common)
    return _Hyperband(max_epochs=trials.epochs, hyperband_iterations=_ITERATIONS, **common)


def _declare(space: keras_tuner.HyperParameters, path: str, spec: Range | Choices) -> None:
    if isinstance(spec, Choices):
        space.Choice(path, encode_choices(spec), ordered=None)
        return
    declare = space.Int if spec.whole else space.Float
    step = spec.step
    if spec.whole:
        step = int(step) if step else None if spec.scale == "log" else 1
    declare(path, spec.min, spec.max, step=step, sampling=spec.scale)


def _folder(inputs: TrainingInputs, tuning: TuningConfig) -> str:
    """Returns the folder of the search; its key is data and configuration without max_trials and max_seconds."""
    work = inputs.custom.get("work") or tempfile.mkdtemp()
    key_config = tuning.model_dump(mode="json", exclude={"max_trials", "max_seconds"})
    custom = {name: value for name, value in inputs.custom.items() if name != CURVES_ENTRY}
    return folder_for(work, inputs.files(), {**custom, "tuning": key_config}, inputs.transform_output)


def _began(path: str) -> float:
    """Returns when the search began, in seconds since 1970; stores the time if the search begins now."""
    if not tf.io.gfile.exists(path):
        write_json(path, {"began": time.time()})
    with tf.io.gfile.GFile(path) as file:
        return float(json.loads(file.read())["began"])


def write_search(folder: str, tuning: TuningConfig, objective: str) -> None:
    """Writes the search space: the values of each path, and the metric that trials are compared by."""
    paths = [hparams.HParam(path, _domain(spec)) for path, spec in tuning.search.items()]
    metric = hparams.Metric(objective, group=VALIDATION, display_name=f"{VALIDATION} {objective}")
    with tf.summary.create_file_writer(folder).as_default(step=0):
        hparams.hparams_config(hparams=paths, metrics=[metric])


@contextmanager
def trial_curves(folder: str, trial: str, values: Mapping[str, Any]) -> Iterator[CurveWriter]:
    """Yields the curves of a trial; writes its values before the block and its final status after it."""
    own = f"{folder}/{trial}"
    curves, writer = CurveWriter(own), tf.summary.create_file_writer(own)
    ended = api_pb2.STATUS_FAILURE
    try:
        with writer.as_default(step=0):
            hparams.hparams(dict(values), trial_id=trial)
        writer.flush()
        yield curves
        ended = api_pb2.STATUS_SUCCESS
    finally:
        with writer.as_default(step=0):
            tf.summary.experimental.write_raw_pb(summary.session_end_pb(ended).SerializeToString())
        writer.close()
        curves.close()


def copy_curves(source: str, target: str) -> None:
    """Copies the folder of all trials recursively."""
    for folder, _, names in tf.io.gfile.walk(source):
        into = f"{target}{folder.removeprefix(source)}"
        tf.io.gfile.makedirs(into)
        for name in names:
            tf.io.gfile.copy(os.path.join(folder, name), os.path.join(into, name), overwrite=True)


def _domain(spec: Range | Choices) -> hparams.Discrete | hparams.IntInterval | hparams.RealInterval:
    if isinstance(spec, Choices):
        return hparams.Discrete(encode_choices(spec))
    if spec.whole:
        return hparams.IntInterval(int(spec.min), int(spec.max))
    return hparams.RealInterval(float(spec.min), float(spec.max))
