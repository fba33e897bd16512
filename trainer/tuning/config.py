"""The section `tuning:` of the YAML. Nothing here imports TensorFlow."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from fullpass.preprocessing.spec import Count, Name, Real, Seed, Spec
from fullpass.trainer.config import Positive

CURVES_FOLDER = "tensorboard"
"""Folder of the trials' curves, in the state of a search and in the Tuner's artifact `tuner_results`."""
CURVES_ENTRY = "trial_curves"
"""Entry of a Tuner's `custom_config`: the folder that receives the curves of all trials at the end of the search."""


class Range(Spec):
    """Numbers from `min` to `max`, both included; whole numbers if both are written as whole numbers."""

    min: Annotated[int, Field(strict=True)] | Real
    max: Annotated[int, Field(strict=True)] | Real
    step: Positive | None = None
    """Distance between the tried numbers; with scale: log, their ratio. The default is 1 for whole numbers with scale:
    linear, otherwise there is no step."""
    scale: Literal["linear", "log"] = "linear"
    """log tries as many numbers between 0.001 and 0.01 as between 0.01 and 0.1."""

    @model_validator(mode="after")
    def _ordered(self) -> "Range":
        if self.min >= self.max:
            raise ValueError(f"min must be less than max. Received: min: {self.min:g}, max: {self.max:g}.")
        if self.scale == "log" and self.min <= 0:
            raise ValueError(f"scale: log needs min above 0. Received: min: {self.min:g}.")
        if self.scale == "log" and self.step is not None and self.step <= 1:
            raise ValueError(f"with scale: log, step is a ratio above 1. Received: step: {self.step:g}.")
        if self.whole and self.step is not None and self.step != int(self.step):
            raise ValueError(f"between whole numbers the step must be whole. Received: step: {self.step:g}.")
        return self

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are tried."""
        return isinstance(self.min, int) and isinstance(self.max, int)

    @property
    def examples(self) -> list[Any]:
        """The ends of the range, which are validated instead of all values."""
        return [self.min, self.max]


class Choices(Spec):
    """Some values, of any type that the path takes."""

    choices: tuple[Any, ...] = Field(min_length=1)
    """The values, two or more, all different."""

    @model_validator(mode="before")
    @classmethod
    def _alone(cls, values: Any) -> Any:
        others = [key for key in values if key != "choices"] if isinstance(values, Mapping) else []
        if others:
            raise ValueError(f"either a range or choices. Remove choices, or {', '.join(map(str, others))}.")
        return values

    @model_validator(mode="after")
    def _different(self) -> "Choices":
        if len({json.dumps(value, sort_keys=True) for value in self.choices}) < max(2, len(self.choices)):
            raise ValueError(f"give two or more different choices. Received: {list(self.choices)}.")
        return self

    @property
    def examples(self) -> list[Any]:
        """All choices."""
        return list(self.choices)


def _form(values: Any) -> str:
    """Returns the form that values are written in, so that mistakes are told of that form only."""
    is_choices = "choices" in values if isinstance(values, Mapping) else isinstance(values, Choices)
    return "Choices" if is_choices else "Range"


_Values = Annotated[Annotated[Range, Tag("Range")] | Annotated[Choices, Tag("Choices")], Discriminator(_form)]


class TuningConfig(Spec):
    """A search before training: trials compete on the validation rows (docs/tuning.md)."""

    search: dict[Name, _Values] = Field(min_length=1)
    """Path into the YAML -> range or choices (docs/tuning.md)."""
    algorithm: Literal["random", "bayesian", "hyperband"] = "bayesian"
    """See docs/tuning.md."""
    max_trials: Count = 20
    """Most trials."""
    max_seconds: Positive | None = None
    """Seconds from the start of the search, interruptions included, after which no trial starts."""
    epochs: Count | None = None
    """Most epochs per trial; null: `training.epochs`."""
    objective: Name | None = None
    """log_loss, loss, accuracy, auc, rmse or mae, if the task has it; null: log_loss, for a regression rmse."""
    seed: Seed = 1
    """Seed of the draws."""
