"""The entry point of TFX's Tuner: transformed examples in, the best hyperparameters out."""

import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import keras_tuner
import tensorflow as tf
import tensorflow_transform as tft
from keras_tuner.engine import base_tuner, oracle, trial

from preprocessing.config import PreprocessingConfig
from preprocessing.errors import UserError
from preprocessing.progress import report
from trainer.checkpoints import folder_for, prune, remove
from trainer.config import CheckpointConfig, TrainerConfig
from trainer.run_fn import Data, input_files, load_data, sized, train, write_json
from trainer.strategy import choose_strategy
from trainer.tuning.config import Choices, Range, TuningConfig
from trainer.tuning.space import LARGER_IS_BETTER, OBJECTIVES, decode, encode, with_values
from trainer.workers import Workers

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs
    from tfx.components.tuner.component import TunerFnResult

_MOST_FAILURES = 10
_CLOCK = "clock.json"


def tuner_fn(fn_args: "FnArgs") -> "TunerFnResult":
    """Returns the search of `custom_config["tuning"]`; `custom_config` otherwise is that of the Trainer.

    The splits are read once, for all trials. The state of the search lies in `custom_config["work"]`, so that one that
    was cut short goes on with the trial it was in.

    Args:
        fn_args: TFX's.

    Raises:
        UserError: The data or the configuration do not let a model be trained.
    """
    from tfx.components.tuner.component import TunerFnResult

    custom = fn_args.custom_config
    tuning = TuningConfig.model_validate_json(custom["tuning"])
    config = TrainerConfig.model_validate(custom["trainer"])
    preprocessing = PreprocessingConfig.model_validate(custom["preprocessing"])
    strategy = choose_strategy(config.training)
    workers = Workers(strategy)
    if workers.count > 1:
        raise UserError(
            "the Tuner runs on one machine, but TF_CONFIG names several workers. Set it for the Trainer only."
        )
    tft_output = tft.TFTransformOutput(fn_args.transform_graph_path)
    trials = Trials(
        data=load_data(fn_args.train_files, fn_args.eval_files, preprocessing, config, tft_output, workers),
        tft_output=tft_output,
        strategy=strategy,
        tuning=tuning,
        trainer=custom["trainer"],
        preprocessing=custom["preprocessing"],
        work=_folder(fn_args, tuning),
    )
    return TunerFnResult(tuner=Search(trials), fit_kwargs={})


@dataclass(frozen=True)
class Trials:
    """What a trial needs.

    Attributes:
        data: both splits, read.
        tft_output: the transform graph's output.
        strategy: the devices.
        tuning: the search.
        trainer: dump of the sections that trials change.
        preprocessing: dump of the section that trials change.
        work: folder of this search.
    """

    data: Data
    tft_output: tft.TFTransformOutput
    strategy: tf.distribute.Strategy
    tuning: TuningConfig
    trainer: Mapping[str, Any]
    preprocessing: Mapping[str, Any]
    work: str

    @property
    def objective(self) -> str:
        """The metric that decides."""
        task = self.preprocessing["label"]["task"]
        return self.tuning.objective or OBJECTIVES[task][0]

    @property
    def epochs(self) -> int:
        """Of a trial, at most."""
        return self.tuning.epochs or self.trainer["training"]["epochs"]

    def run(self, values: Mapping[str, Any], epochs: int, note: str) -> float:
        """Returns the best objective of a training.

        With hyperband a training of the same values goes on where it ended with fewer epochs: the learning rate falls
        over all epochs that a trial may get.

        Args:
            values: path -> value.
            epochs: to run.
            note: said while it runs.
        """
        sections, preprocessing = with_values(values, self.trainer, self.preprocessing)
        config = TrainerConfig.model_validate(sections)
        saving = CheckpointConfig(keep=1)
        training = config.training.model_copy(update={"epochs": self.epochs, "checkpoint": saving, "profile": None})
        config = config.model_copy(update={"training": training})
        folder = folder_for(f"{self.work}/trials", (), dict(values))
        again = self.tuning.algorithm == "hyperband"
        keras.backend.clear_session()
        trained = train(
            sized(self.data, training),
            PreprocessingConfig.model_validate(preprocessing),
            config,
            self.tft_output,
            strategy=self.strategy,
            report=lambda done, total, unit, words: report(done, total, unit, f"{note}, {words}"),
            on_epoch=lambda *_: None,
            checkpoints=folder,
            until=epochs,
            keep_checkpoint=again,
        )
        if not again:
            remove(folder)
        best = max if self.objective in LARGER_IS_BETTER else min
        return float(best(trained.fitted.history[f"val_{self.objective}"]))


class Search(base_tuner.BaseTuner):
    """KerasTuner's search, with trials that are trained as the model will be."""

    def __init__(self, trials: Trials):
        """Takes up the search in the folder of `trials`, or begins it."""
        self._trials = trials
        super().__init__(_oracle(trials), directory=trials.work, project_name="search", overwrite=False)
        self._began = _began(f"{trials.work}/{_CLOCK}")

    def save(self) -> None:
        """Saves the search, whole or not at all."""
        self.oracle.save()
        write_json(self._get_tuner_fname(), self.get_state())

    def search(self, *args: Any, **kwargs: Any) -> None:
        """Runs trials until there are enough of them, or the time is over.

        Raises:
            UserError: No trial ended well.
        """
        self.oracle.create_trial = self._within_limits(self.oracle.create_trial)
        super().search(*args, **kwargs)
        prune(self._trials.work)
        if tf.io.gfile.exists(f"{self._trials.work}/trials"):
            tf.io.gfile.rmtree(f"{self._trials.work}/trials")
        # get_best_trials also gives trials that failed.
        if all(found.status != trial.TrialStatus.COMPLETED for found in self.oracle.trials.values()):
            messages = [found.message for found in self.oracle.trials.values() if found.message]
            last = messages[-1].strip().splitlines()[-1] if messages else "max_seconds was over before the first ended"
            raise UserError(f"no trial of tuning.search ended well. The last one: {last}")

    def run_trial(self, trial: trial.Trial, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Trains with the hyperparameters of a trial; returns the objective."""
        given = trial.hyperparameters.values
        values = {path: decode(spec, given[path]) for path, spec in self._trials.tuning.search.items()}
        epochs = int(given.get("tuner/epochs", self._trials.epochs))
        note = f"trial {len(self.oracle.trials)} of {self._trials.tuning.max_trials}"
        objective = self._trials.run(values, epochs, note)
        return {self._trials.objective: objective}

    def load_model(self, trial: trial.Trial) -> Any:
        """Trials leave no model: the Trainer trains the one that is served."""
        raise NotImplementedError

    def _within_limits(self, create: Any) -> Any:
        tuning = self._trials.tuning

        def create_trial(tuner_id: str) -> trial.Trial:
            waiting = self.oracle._retry_queue
            over = tuning.max_seconds is not None and time.time() - self._began >= tuning.max_seconds
            if not waiting and (over or len(self.oracle.trials) >= tuning.max_trials):
                return trial.Trial(self.oracle.get_space(), trial_id="none", status=trial.TrialStatus.STOPPED)
            return create(tuner_id)

        return create_trial


class _SavedWhole(oracle.Oracle):
    """KerasTuner writes its files in place; killed meanwhile, it would leave half a file and no way to go on."""

    def save(self) -> None:
        write_json(self._get_oracle_fname(), self.get_state())

    def _save_trial(self, trial: trial.Trial) -> None:
        write_json(os.path.join(self._get_trial_dir(trial.trial_id), "trial.json"), trial.get_state())


class _Random(_SavedWhole, keras_tuner.oracles.RandomSearchOracle):
    pass


class _Bayesian(_SavedWhole, keras_tuner.oracles.BayesianOptimizationOracle):
    pass


class _Hyperband(_SavedWhole, keras_tuner.oracles.HyperbandOracle):
    pass


def _oracle(trials: Trials) -> oracle.Oracle:
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
        "max_consecutive_failed_trials": _MOST_FAILURES,
    }
    if tuning.algorithm == "random":
        return _Random(max_trials=tuning.max_trials, **common)
    if tuning.algorithm == "bayesian":
        return _Bayesian(max_trials=tuning.max_trials, **common)
    # As often as trials allow: what counts is max_trials.
    return _Hyperband(max_epochs=trials.epochs, hyperband_iterations=1000, **common)


def _declare(space: keras_tuner.HyperParameters, path: str, spec: Range | Choices) -> None:
    if isinstance(spec, Choices):
        space.Choice(path, encode(spec), ordered=None)
        return
    declare = space.Int if spec.whole else space.Float
    step = spec.step
    if spec.whole:
        step = int(step) if step else None if spec.scale == "log" else 1
    declare(path, spec.min, spec.max, step=step, sampling=spec.scale)


def _folder(fn_args: "FnArgs", tuning: TuningConfig) -> str:
    """Returns the folder of the search: the same for the same data and configuration, more trials or time apart."""
    work = fn_args.custom_config.get("work") or tempfile.mkdtemp()
    apart = tuning.model_dump(mode="json", exclude={"max_trials", "max_seconds"})
    custom = {**fn_args.custom_config, "tuning": apart}
    return folder_for(work, input_files(fn_args), custom, fn_args.transform_graph_path)


def _began(path: str) -> float:
    """Returns when the search began, in seconds since 1970, noting it where it begins now."""
    if not tf.io.gfile.exists(path):
        write_json(path, {"began": time.time()})
    with tf.io.gfile.GFile(path) as file:
        return float(json.loads(file.read())["began"])
