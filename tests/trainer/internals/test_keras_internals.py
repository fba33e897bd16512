"""What `keras_internals` promises of Keras and KerasTuner: another version that differs fails here first."""

import json
from pathlib import Path

import keras
import keras_tuner
import numpy as np
import pytest

from fullpass.trainer.internals.keras_internals import (
    adam_moments,
    oracle_file,
    retries_waiting,
    trial_file,
    tuner_file,
)

pytestmark = pytest.mark.integration


def test_the_moments_of_adam_are_those_of_the_gradient():
    variable, other = (keras.Variable(np.zeros(2, "float32")) for _ in range(2))
    optimizer = keras.optimizers.Adam(0.1)
    gradients = [keras.ops.convert_to_tensor([1.0, -2.0]), keras.ops.zeros(2)]
    optimizer.apply(gradients, [variable, other])
    mean, square = adam_moments(optimizer, variable)
    np.testing.assert_allclose(mean.numpy(), [0.1, -0.2], rtol=1e-6)
    np.testing.assert_allclose(square.numpy(), [0.001, 0.004], rtol=1e-5)
    assert not adam_moments(optimizer, other)[0].numpy().any()


class Search(keras_tuner.Tuner):
    def run_trial(self, trial, *args, **kwargs):
        trial.hyperparameters.Int("n", 1, 3)
        return 1.0


def test_a_search_resumes_from_the_files_that_are_named(tmp_path: Path):
    oracle = keras_tuner.oracles.RandomSearchOracle(keras_tuner.Objective("loss", "min"), max_trials=1)
    search = Search(oracle, hypermodel=lambda hp: hp.Int("n", 1, 3), directory=str(tmp_path), project_name="search")
    search.search()
    (trial,) = oracle.trials
    assert json.loads(Path(trial_file(oracle, trial)).read_text())["trial_id"] == trial
    assert Path(oracle_file(oracle)).is_file() and Path(tuner_file(search)).is_file()
    assert callable(oracle._save_trial) and not retries_waiting(oracle)
    oracle._retry_queue.append(trial)
    assert retries_waiting(oracle)
