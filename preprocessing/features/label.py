"""The label, its task, and the weight of each example."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from fullpass.preprocessing.features.forecast import Forecast, ShiftedLabel, label_column, shifted_label
from fullpass.preprocessing.list_text import split_items
from fullpass.preprocessing.spec import Fraction, Name, Real, Spec
from fullpass.preprocessing.token_spelling import as_token, distinct_tokens

Task = Literal["binary", "multiclass", "multilabel", "regression"]


TRUE: tuple[str, ...] = ("true", "t", "yes", "y", "1", "1.0")
FALSE: tuple[str, ...] = ("false", "f", "no", "n", "0", "0.0")


def binary_class(value: str, positive: str | float | None) -> int | None:
    """Returns the class, 0 or 1, that a text means as a binary label without `classes`; None if it means neither."""
    if isinstance(positive, str):
        return int(value == positive)
    if positive is None:
        word = value.strip().lower()
        return 1 if word in TRUE else 0 if word in FALSE else None
    try:
        return int(np.float32(value) == np.float32(positive))
    except ValueError:
        return None


def classes_in_cell(cell: str, separator: str | None) -> tuple[str, ...]:
    """Returns the classes between the separators of a multilabel cell, without blanks around them and empty ones.

    Example:
        >>> classes_in_cell("red| tall||red", "|")
        ('red', 'tall')
    """
    parts = (part.strip(" \t\n\r\v\f") for part in split_items(cell, separator))
    return tuple(dict.fromkeys(part for part in parts if part))


class Label(Spec):
    """The label column and its task. Serving never needs it.

    A row whose label is missing or an unknown class has weight 0: it does not count in training and metrics. A
    multilabel cell of separators alone means that no class applies.
    """

    name: Name
    """Raw or derived column."""
    task: Task
    """One of two classes, one of several, any of several; a number."""
    positive: str | Real | None = None
    """Binary: the value that is 1; all others are 0. Without it and `classes`: true/false, yes/no, 1/0. Train's values
    name the classes if there are two; else `not X` and `X`, or 0 and 1."""
    classes: tuple[str, ...] | None = Field(default=None, min_length=2)
    """Classes in id order; None: those of train, most frequent first. Binary: the negative, then the positive value;
    any other is no label."""
    forecast: Forecast | None = None
    separator: Name | None = None
    """Multilabel: separator of the classes in a cell, or an example of a list, `"['a', 'b']"`, as in a category."""
    weight: Name | None = None
    """Number column with the weight of each row; missing or negative is 0."""
    class_weights: Literal["balanced"] | dict[str, Annotated[Real, Field(gt=0)]] | None = None
    """Training weight per class; balanced: n / (classes * count(class)). Metrics do not use it (docs/training.md)."""
    max_missing: Fraction = 0.05
    """Largest share of train rows without a usable label; above it the run fails."""

    @property
    def column(self) -> str:
        """The raw or derived column with the label of a row: `name`, or for a forecast the one that Ingest adds."""
        return self.name if self.forecast is None else label_column(self.name, self.forecast)

    @property
    def shifted(self) -> ShiftedLabel | None:
        """The columns that Ingest adds; None if this is no forecast. A multilabel task has no baselines."""
        if self.forecast is None:
            return None
        return shifted_label(self.name, self.forecast, baselines=self.task != "multilabel")

    @property
    def added(self) -> tuple[str, ...]:
        """The names of the columns that Ingest adds: the label and its baselines."""
        return () if self.shifted is None else tuple(self.shifted.columns)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names of the classes in id order; None if they are learned from the train split, empty for regression.

        For a binary label these are its `classes`, else ("not X", "X") with `positive: X`, else ("0", "1"); but see
        `names_of_values`.
        """
        if self.task == "regression":
            return ()
        if self.task != "binary" or self.classes is not None:
            return self.classes
        if self.positive is None:
            return ("0", "1")
        positive = self.positive if isinstance(self.positive, str) else f"{self.positive:g}"
        return (f"not {positive}", positive)

    def names_of_values(self, values: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the names of the classes, given the distinct tokens of the label in the train split.

        A binary label without `classes` is named by its two values, the negative one first, if train has one value of
        each class. Otherwise the names are `class_names`.
        """
        if self.task != "binary" or self.classes is not None or len(values) != 2:
            return self.class_names
        of_class = {binary_class(value, self.positive): value for value in values}
        return (of_class[0], of_class[1]) if of_class.keys() == {0, 1} else self.class_names

    def classes_of(self, value: str, names: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the names of the classes that a value of the column means; None if it is no usable label.

        Args:
            names: Names of the classes of a binary label, the negative one first.
        """
        if self.task == "multilabel":
            cell = classes_in_cell(value, self.separator)
            known = tuple(one for one in cell if self.classes is None or one in self.classes)
            return known if known or not cell else None
        if self.task == "multiclass":
            return (value,) if self.classes is None or value in self.classes else None
        if self.classes is not None:
            return (value,) if value in self.classes else None
        of_class = binary_class(value, self.positive)
        return None if of_class is None else (names[of_class],)

    @field_validator("positive", "classes")
    @classmethod
    def _tokens(cls, value: Any) -> Any:
        if isinstance(value, tuple):
            try:
                return distinct_tokens(value)
            except ValueError as error:
                raise ValueError(f"every class must be listed only once. Received: {list(value)}: {error}.") from None
        return as_token(value) if isinstance(value, str) else value

    @field_validator("class_weights")
    @classmethod
    def _weights_by_token(cls, value: Any) -> Any:
        return {as_token(name): weight for name, weight in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _fits_task(self) -> "Label":
        only = {
            "positive": ("binary",),
            "classes": ("binary", "multiclass", "multilabel"),
            "separator": ("multilabel",),
        }
        for field, tasks in only.items():
            if getattr(self, field) is not None and self.task not in tasks:
                raise ValueError(f"{field} is for {' and '.join(tasks)}. Received: task: {self.task}.")
        if self.task == "binary" and self.classes is not None and (len(self.classes) != 2 or self.positive is not None):
            raise ValueError(
                "a binary label has two classes, of which the second is the positive one; they replace `positive`. "
                f"Received: classes: {list(self.classes)}, positive: {self.positive}."
            )
        if self.class_weights is not None and self.task not in ("binary", "multiclass"):
            raise ValueError(f"class_weights is for binary and multiclass. Received: task: {self.task}.")
        if self.task == "multilabel" and self.separator is None:
            raise ValueError("multilabel needs separator, the text between the classes in a cell.")
        return self
