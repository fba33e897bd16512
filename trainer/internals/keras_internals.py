"""What the trainer uses of Keras and KerasTuner beyond their documented interfaces.

`tests/trainer/internals/test_keras_internals.py` fails first if another version differs.

* `adam_moments`: one operation per variable updates it and its moments; Keras' Adam runs a dozen.
* `retries_waiting`: a trial that is run again does not count as another one.
* `oracle_file`, `trial_file`, `tuner_file`: the files that a search resumes from. KerasTuner does not write them
  atomically, so the trainer writes them itself. It overrides `Oracle._save_trial` for that.
"""

from typing import Any


def adam_moments(optimizer: Any, variable: Any) -> tuple[Any, Any]:
    """Returns the tf.Variables with the first and the second moment of a variable's gradient."""
    index = optimizer._get_variable_index(variable)
    return optimizer._momentums[index].value, optimizer._velocities[index].value


def retries_waiting(oracle: Any) -> bool:
    """Whether trials wait for being run again."""
    return bool(oracle._retry_queue)


def oracle_file(oracle: Any) -> str:
    """Returns the path of the state of an oracle."""
    return oracle._get_oracle_fname()


def trial_file(oracle: Any, trial: str) -> str:
    """Returns the path of the state of a trial, by its id."""
    return f"{oracle._get_trial_dir(trial)}/trial.json"


def tuner_file(tuner: Any) -> str:
    """Returns the path of the state of a tuner."""
    return tuner._get_tuner_fname()
