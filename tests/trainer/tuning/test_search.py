"""A search over the planted rows: its trials, its best values, and its behavior after an interruption."""

import json
import pickle
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fullpass.base.errors import UserError
from fullpass.trainer.config import TrainingSpec
from fullpass.trainer.fit import training_data as reading
from fullpass.trainer.fit.training_data import TrainingData
from fullpass.trainer.run_fn import run_fn
from fullpass.trainer.train import RunOptions, Trained
from fullpass.trainer.tuning import search
from fullpass.trainer.tuning.config import TuningConfig
from fullpass.trainer.tuning.search import tuner_fn
from tests import REPOSITORY, warm_process
from tests.trainer.conftest import training_of

pytestmark = pytest.mark.integration
RATE = {"training.learning_rate": {"choices": [1e-7, 0.03]}}


def tuner_args(planted, folder: Path, *, model="linear", training=None, task="binary", **tuning) -> SimpleNamespace:
    given = {"epochs": 2, "batch_size": 50, **(training or {})}
    args = planted(task).of("x", "kind", "city", "tags").fn_args(folder, model=model, training=given)
    args.transform_graph_path = args.transform_output
    args.custom_config["tuning"] = TuningConfig.model_validate(tuning).model_dump_json()
    return args


@dataclass(frozen=True)
class Training:
    """The arguments and the result of one call of `train`."""

    data: TrainingData
    spec: TrainingSpec
    options: RunOptions
    trained: Trained


@pytest.fixture
def trainings(monkeypatch) -> list[Training]:
    """The trainings of a search, one per trial, in order."""
    found = []
    real = search.train

    def train(data, spec, strategy, options):
        found.append(Training(data, spec, options, real(data, spec, strategy, options)))
        return found[-1].trained

    monkeypatch.setattr(search, "train", train)
    return found


def searched(args):
    found = tuner_fn(args)
    found.tuner.search(**found.fit_kwargs)
    return found.tuner


def tried(tuner) -> list[dict]:
    return [trial.hyperparameters.values for trial in tuner.oracle.trials.values()]


def trained_with_the_best(args, tuner) -> dict:
    """Trains with the best values of a search, and returns the content of training.json."""
    args.hyperparameters = tuner.get_best_hyperparameters()[0].get_config()
    run_fn(args)
    return training_of(Path(args.model_run_dir).parent)


def assert_trained_as_the_trial(record, tuner):
    [trial] = tuner.oracle.get_best_trials(1)
    assert min(record["history"]["val_log_loss"]) == pytest.approx(trial.score, rel=1e-6)


@pytest.mark.parametrize("algorithm", ["random", pytest.param("bayesian", marks=pytest.mark.long)])
def test_the_better_learning_rate_is_found_and_trained_with(planted, tmp_path, monkeypatch, algorithm):
    read, load_split = [], reading.load_split
    monkeypatch.setattr(
        reading, "load_split", lambda name, *given, **o: read.append(name) or load_split(name, *given, **o)
    )
    args = tuner_args(planted, tmp_path, search=RATE, algorithm=algorithm, max_trials=2)
    tuner = searched(args)
    assert sorted(values["training.learning_rate"] for values in tried(tuner)) == [1e-7, 0.03]
    assert tuner.get_best_hyperparameters()[0].values["training.learning_rate"] == 0.03
    assert sorted(read) == ["eval", "train"], "once, for all trials"
    assert not (tmp_path / "work" / "trials").exists()
    record = trained_with_the_best(args, tuner)
    assert record["hyperparameters"] == {"training.learning_rate": 0.03}
    assert_trained_as_the_trial(record, tuner)


def test_all_kinds_of_paths_reach_the_model(planted, tmp_path, trainings):
    space = {
        "model.hidden": {"choices": [[4], [8, 4]]},
        "training.batch_size": {"min": 40, "max": 60, "step": 10},
        "features.city.encoding.embedding": {"choices": [2, 16]},
        "model.dropout": {"min": 0.0, "max": 0.5},
    }
    model = {"kind": "mlp", "hidden": [4]}
    tuner = searched(tuner_args(planted, tmp_path, model=model, search=space, algorithm="random", max_trials=3))
    sizes = {}
    for values, trial in zip(tried(tuner), trainings, strict=True):
        assert list(trial.spec.config.model.hidden) == json.loads(values["model.hidden"])
        assert trial.data.batch_size == values["training.batch_size"] in (40, 50, 60)
        assert 0.0 <= values["model.dropout"] <= 0.5
        shape = values["model.hidden"], values["features.city.encoding.embedding"]
        sizes[shape] = trial.trained.network.model.count_params()
    assert len(set(sizes.values())) == len(sizes) > 1


@pytest.mark.long
def test_trees_are_searched_and_trained_with_the_best(planted, tmp_path):
    """A tree with two leaves uses one feature; the joint effect of `kind` and `x` needs more leaves."""
    space = {"model.leaves": {"choices": [2, 15]}, "training.epochs": {"choices": [1, 4]}}
    given = {"training": {"batch_size": "auto"}, "search": space, "algorithm": "random", "max_trials": 4}
    args = tuner_args(planted, tmp_path, model="trees", **given)
    tuner = searched(args)
    assert tuner.get_best_hyperparameters()[0].values == {"model.leaves": 15, "training.epochs": 4}
    assert_trained_as_the_trial(trained_with_the_best(args, tuner), tuner)


@pytest.mark.long
def test_a_trial_of_trees_or_a_network_is_worth_the_better(planted, tmp_path, trainings):
    space = {"training.learning_rate": {"choices": [0.0001, 0.01]}}
    args = tuner_args(planted, tmp_path, model="auto", search=space, algorithm="random", max_trials=2)
    tuner = searched(args)
    scores = [min(trial.trained.compared.values()) for trial in trainings]
    assert sorted(trial.score for trial in tuner.oracle.get_best_trials(2)) == pytest.approx(sorted(scores))
    record = trained_with_the_best(args, tuner)
    assert min(record["compared"].values()) == pytest.approx(min(scores), rel=1e-6), "trained as the trial was"


@pytest.mark.long
@pytest.mark.parametrize(("limit", "epochs"), [(None, [1, 3]), (2, [1, 2])])
def test_epochs_that_are_searched_are_run(planted, tmp_path, trainings, limit, epochs):
    """`training.epochs` is 2. The search tries 1 and 3, and `tuning.epochs` limits each trial."""
    space = {"training.epochs": {"choices": [1, 3]}}
    searched(tuner_args(planted, tmp_path, search=space, algorithm="random", max_trials=2, epochs=limit))
    assert sorted(trial.trained.fitted.epochs for trial in trainings) == epochs


@pytest.mark.long
def test_hyperband_gives_trees_more_rounds(planted, tmp_path, trainings):
    """Trees are not checkpointed: a trial that continues grows the same trees again, and then more."""
    space = {"model.learning_rate": {"min": 0.01, "max": 0.3, "scale": "log"}}
    training = {"epochs": 6, "early_stopping": None, "batch_size": "auto"}
    args = tuner_args(
        planted, tmp_path, model="trees", training=training, search=space, algorithm="hyperband", max_trials=6
    )
    searched(args)
    longest = {}
    for trial in trainings:
        rate, history = trial.spec.config.model.learning_rate, trial.trained.fitted.history["val_log_loss"]
        assert len(history) == trial.options.until
        before = longest.get(rate, [])
        np.testing.assert_array_equal(history[: len(before)], before)
        longest[rate] = history
    assert len(trainings) > len(longest), "some went on"


@pytest.mark.long
def test_hyperband_goes_on_with_the_best_where_they_ended(planted, tmp_path, trainings):
    space = {"training.learning_rate": {"min": 0.001, "max": 0.1, "scale": "log"}}
    training = {"epochs": 6, "early_stopping": None}
    searched(tuner_args(planted, tmp_path, training=training, search=space, algorithm="hyperband", max_trials=6))
    first, further = {}, []
    for trial in trainings:
        rate, fitted = trial.spec.config.training.learning_rate, trial.trained.fitted
        if fitted.resumed_at:
            further.append((rate, trial.options.until, fitted.resumed_at, fitted.history["val_log_loss"]))
        else:
            first[rate] = fitted.history["val_log_loss"]
    assert further, first
    for rate, until, resumed, history in further:
        assert resumed % 20 == 0 and len(history) == until > resumed // 20
        np.testing.assert_array_equal(history[: resumed // 20], first[rate][: resumed // 20])


def test_a_search_that_was_killed_goes_on(planted, tmp_path):
    """A search of four trials is killed after two: the next run makes the rest and keeps the first two."""
    space = {"training.learning_rate": {"min": 0.001, "max": 0.1, "scale": "log"}}
    args = tuner_args(planted, tmp_path, search=space, algorithm="random", max_trials=4, training={"batch_size": 20})
    (tmp_path / "args").write_bytes(pickle.dumps(args))
    code = (
        "import os, pickle, sys\n"
        'os.environ.update(TF_USE_LEGACY_KERAS="0", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")\n'
        "from fullpass.trainer.tuning.search import tuner_fn\n"
        "tuner_fn(pickle.load(open(sys.argv[1], 'rb'))).tuner.search()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "args")]
    process = warm_process.Process(command, cwd=REPOSITORY)
    deadline = time.monotonic() + 600
    while len(list((tmp_path / "work").glob("*/search/trial_*/trial.json"))) < 2:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    before = {path.parent.name for path in (tmp_path / "work").glob("*/search/trial_*/trial.json")}
    tuner = searched(args)
    assert len(tuner.oracle.trials) == 4
    assert before <= {f"trial_{name}" for name in tuner.oracle.trials}


def test_the_time_budget_ends_a_search(planted, tmp_path):
    args = tuner_args(planted, tmp_path, search=RATE, algorithm="random", max_trials=2, max_seconds=1e-9)
    with pytest.raises(UserError, match="no trial of tuning.search completed.*max_seconds elapsed"):
        searched(args)


def test_a_search_in_which_nothing_can_be_trained_says_why(planted, tmp_path):
    space = {"training.learning_rate": {"choices": [1e30, 1e35]}}
    training = {"optimizer": "sgd", "warmup": 0.0, "clip_norm": None}
    given = {"search": space, "algorithm": "random", "max_trials": 1, "training": training, "task": "regression"}
    args = tuner_args(planted, tmp_path, **given)
    with pytest.raises(UserError, match="no trial of tuning.search completed. The last one: .*training diverged"):
        searched(args)
