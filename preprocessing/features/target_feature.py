"""The target encoding of categories."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from fullpass.base.errors import UserError
from fullpass.preprocessing.features.base_feature import BaseFeature
from fullpass.preprocessing.features.label import Label
from fullpass.preprocessing.spec import Name


class TargetFeature(BaseFeature):
    """The label's mean in train for a category, or for a combination of several (target encoding).

    Transformed: float32 [batch], or [batch, classes] for a multiclass label: (mean of the value - mean of all) /
    standard deviation of all, where (sum + smoothing * mean of all) / (rows + smoothing) is the mean of the value; 0 if
    missing or unseen, or if all labels are equal. A train row is encoded by the rows of the other folds. Rows
    without a usable label do not count; weights are not used. Sums are exact. An analyzer.

    Source: Micci-Barreca (2001), with the folds of scikit-learn's TargetEncoder.
    """

    example: ClassVar[str] = """\
plane_delay: {type: target, column: tailnum}
route_delay: {type: target, columns: [origin, dest], smoothing: 50}
hour_delay: {type: target, cross: origin_at_hour}   # crosses: [{name: origin_at_hour, ...}]
"""
    computed_by: ClassVar = "target.target"
    column_holds: ClassVar = "token"

    type: Literal["target"]
    compute_at: Literal["transform"] = "transform"
    """Always transform (docs/placement.md)."""
    columns: tuple[Name, ...] | None = Field(default=None, min_length=2)
    """Columns whose combination is encoded."""
    cross: Name | None = None
    """A cross, by its name, whose combination is encoded."""
    smoothing: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 20.0
    """Rows with the mean of all that are added to those of each value."""
    folds: Annotated[int, Field(strict=True, ge=2, le=100)] = 5
    """Parts of train, by the number of a row at ingest."""

    @model_validator(mode="after")
    def _one_source(self) -> "TargetFeature":
        if sum(given is not None for given in (self.column, self.columns, self.cross)) > 1:
            raise ValueError("give one of column, columns and cross.")
        return self

    def column_types(self, name: str) -> dict[str, str]:
        """Returns column -> type; none for a cross, whose features read its columns."""
        if self.cross is not None:
            return {}
        return super().column_types(name) if self.columns is None else dict.fromkeys(self.columns, "token")


def encoded_parts(label: Label) -> tuple[str, ...]:
    """Returns what is averaged per value: the numbers of the classes, of a binary label 1 alone, or `s` for a number.

    Raises:
        UserError: The label has no mean, or its classes are not known before the data is read.
    """
    match label.task:
        case "binary":
            return ("1",)
        case "regression":
            return ("s",)
        case "multiclass" if label.classes is not None:
            return tuple(map(str, range(len(label.classes))))
    fix = "List the classes in label.classes." if label.task == "multiclass" else "Remove it, or use `type: count`."
    raise UserError(f"a target encoding needs known classes or a number. Received: label.task {label.task}. {fix}")
