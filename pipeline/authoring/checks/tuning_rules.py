"""Checks of the hyperparameter search: its paths exist and accept the values to try."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from fullpass.base.errors import did_you_mean
from fullpass.pipeline.authoring.checks.findings import Finding
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.config import TrainerConfig
from fullpass.trainer.tuning.search_space import OBJECTIVES, path_problem, with_values


def check_tuning_paths(loaded: Loaded) -> Iterator[Finding]:
    """Every path of the search leads to a field that accepts the values to try."""
    config = loaded.config
    for path, spec in config.tuning.search.items() if config.tuning else ():
        keys: Keys = ("tuning", "search", path)
        problem = path_problem(path, config.model.kind, config.features)
        if problem is not None:
            yield Finding(keys, problem)
            continue
        for value in spec.examples:
            problem = _value_problem(loaded, path, value)
            if problem is not None:
                yield Finding(keys, f"{value!r} cannot be tried: {problem}")
                break


def check_tuning_objective(loaded: Loaded) -> Iterator[Finding]:
    """The objective is a metric that training measures after every epoch for this label's task."""
    tuning, task = loaded.config.tuning, loaded.config.label.task
    if tuning is not None and tuning.objective not in (None, *OBJECTIVES[task]):
        known = OBJECTIVES[task]
        hint = did_you_mean(tuning.objective or "", known)
        yield Finding(
            ("tuning", "objective"),
            f"{tuning.objective!r} is not measured in training for {task} labels.{hint} There are: {', '.join(known)}.",
        )


def check_tuning_workers(loaded: Loaded) -> Iterator[Finding]:
    """A search runs on one machine."""
    if loaded.config.tuning is not None and loaded.config.training.distribution == "multi_worker":
        yield Finding(
            ("training", "distribution"),
            "is multi_worker, but a search (tuning) runs on one machine. Use distribution: auto, and set TF_CONFIG for "
            "the Trainer alone.",
        )


def _value_problem(loaded: Loaded, path: str, value: Any) -> str | None:
    config = loaded.config
    declared = config.preprocessing_config
    sections = config.trainer_config.model_dump(mode="json"), declared.model_dump(mode="json")
    try:
        trainer, preprocessing = with_values({path: value}, *sections)
        TrainerConfig.model_validate(trainer)
        PreprocessingConfig.model_validate(preprocessing)
    except ValidationError as error:
        return str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    except (KeyError, TypeError, AttributeError):
        return "the path goes through a value that has no fields."
    return None
