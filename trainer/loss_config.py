"""The key `training.loss` of the YAML: a class per loss, from which schema, checks, docs and trees follow.

A new loss is a class here, listed in `LossConfig`, and a function in trainer/models/losses.py. No TensorFlow here.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from fullpass.preprocessing.features.label import Task
from fullpass.preprocessing.spec import SelectedBy, Spec, members_by_tag

_CLASSES: tuple[Task, ...] = ("binary", "multiclass", "multilabel")


class _Loss(Spec):
    tasks: ClassVar[tuple[Task, ...]] = ("regression",)
    """The tasks of the label that it supports."""
    labels: ClassVar[Literal["any", "0 and above", "above 0"]] = "any"
    """The labels that it supports."""
    logarithmic: ClassVar[bool] = False
    """Whether the network predicts a logarithm."""
    judged_by_itself: ClassVar[bool] = True
    """Whether the loss marks the best epoch; otherwise the log loss or the root mean squared error does."""
    objective: ClassVar[str | None] = None
    """LightGBM's objective for a regression; None if trees do not support the loss."""
    linear: ClassVar[bool] = False
    """Whether trainer/linear/ fits models with it."""

    @model_validator(mode="before")
    @classmethod
    def _bare_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value


class Auto(_Loss):
    """`squared` for a regression, else the log loss."""

    tasks = (*_CLASSES, "regression")
    judged_by_itself = False
    objective = "regression"
    linear = True
    kind: Literal["auto"] = "auto"


class Squared(_Loss):
    """The squared error: predicts the mean."""

    judged_by_itself = False
    objective = "regression"
    linear = True
    kind: Literal["squared"]


class Absolute(_Loss):
    """The absolute error, for wild outliers: predicts the median."""

    objective = "regression_l1"
    kind: Literal["absolute"]


class Huber(_Loss):
    """Squared error up to `delta`, absolute beyond, for some outliers: predicts nearly the mean."""

    objective = "huber"
    kind: Literal["huber"]
    delta: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = 1.0
    """In standard deviations of the label."""


class Poisson(_Loss):
    """The Poisson deviance, for counts and other labels of 0 and above: predicts the mean."""

    labels = "0 and above"
    logarithmic = True
    objective = "poisson"
    linear = True
    kind: Literal["poisson"]


class Tweedie(_Loss):
    """The Tweedie deviance, for amounts that are often 0, such as costs and claims: predicts the mean."""

    labels = "0 and above"
    logarithmic = True
    objective = "tweedie"
    linear = True
    kind: Literal["tweedie"]
    power: Annotated[float, Field(strict=True, gt=1, lt=2)] = 1.5
    """The variance grows with this power of the mean: near 1 as that of counts, near 2 with the square."""


class LogNormal(_Loss):
    """The squared error of the label's logarithm, for amounts and times, labels above 0: 10 for 20 is as wrong as 1,000
    for 2,000. Predicts the mean of a log-normal distribution with the spread of the errors on validation rows; with
    `calibration: none` its median."""

    labels = "above 0"
    logarithmic = True
    objective = "regression"
    linear = True
    kind: Literal["log_normal"]


class Quantile(_Loss):
    """Quantiles, which never cross: predicts the middle level. The export returns all as `quantiles` and `levels`,
    `fullpass predict` as `quantile_0.1` ..."""

    objective = "quantile"
    kind: Literal["quantile"]
    levels: tuple[Annotated[float, Field(strict=True, gt=0, lt=1)], ...] = Field(default=(0.1, 0.5, 0.9), min_length=1)
    """In rising order."""

    @model_validator(mode="after")
    def _rising(self) -> "Quantile":
        if list(self.levels) != sorted(set(self.levels)):
            raise ValueError(f"levels must be different and in rising order. Received: {list(self.levels)}.")
        return self

    @property
    def middle(self) -> int:
        """The index of the level that is the prediction: the one nearest to a half."""
        return min(range(len(self.levels)), key=lambda i: abs(self.levels[i] - 0.5))


class Focal(_Loss):
    """The log loss times (1 - p) ** gamma, for a rare class; p is the probability of the example's class (Lin et al.
    2017)."""

    tasks = _CLASSES
    judged_by_itself = False
    kind: Literal["focal"]
    gamma: Annotated[float, Field(strict=True, gt=0, le=10)] = 2.0
    """The larger, the less easy examples count."""


LossConfig = Annotated[
    Auto | Squared | Absolute | Huber | Poisson | Tweedie | LogNormal | Quantile | Focal,
    SelectedBy("kind", bare=True),
]

LOSSES: Mapping[str, type[_Loss]] = members_by_tag(LossConfig)
"""The value of `kind` -> the class."""


def losses_for(task: Task, *, trees: bool = False) -> str:
    """Returns the kinds of the losses that support a task, as text; those that trees support, if `trees`."""
    return ", ".join(k for k, loss in LOSSES.items() if task in loss.tasks and not (trees and loss.objective is None))


def levels_of(loss: LossConfig) -> tuple[float, ...]:
    """Returns the levels of the quantiles that a model outputs; empty without any."""
    return loss.levels if isinstance(loss, Quantile) else ()


def variance_power(loss: LossConfig) -> float | None:
    """Returns the power of the mean that the variance grows with; None for losses without one."""
    return loss.power if isinstance(loss, Tweedie) else 1.0 if isinstance(loss, Poisson) else None
