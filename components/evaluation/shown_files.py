"""The files of an evaluation that only the report shows: partial dependence, and texts. Reading needs no TensorFlow."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fullpass.base.files import read_bytes
from fullpass.base.json_text import number_of

DEPENDENCE_FILE = "partial_dependence.json"
TEXTS_FILE = "shown_texts.json"


@dataclass(frozen=True)
class ColumnDependence:
    """The partial dependence on one raw column.

    Attributes:
        column: Name of the column.
        kind: `number`, `date`, or `value` for categories and booleans.
        values: The values at which the dependence was measured, as text, [points].
        places: Positions on the axis: numbers, or dates in days since 1970, ascending, [points]; empty for categories.
        scores: The mean score of each series at each point, [series][points].
    """

    column: str
    kind: str
    values: tuple[str, ...]
    places: tuple[float, ...]
    scores: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Dependence:
    """The partial dependence of a model's scores on its most important raw columns.

    Attributes:
        rows: Number of eval rows over which the means are taken.
        series: Names of the scores: the positive class, some classes, or `prediction`.
        means: The mean score of each series over the unchanged rows, [series].
        columns: The columns, the most important first.
        left_out: Important columns without a curve -> the reason.
    """

    rows: int
    series: tuple[str, ...]
    means: tuple[float, ...]
    columns: tuple[ColumnDependence, ...]
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class ShownText:
    """The texts of a row of the eval split.

    Attributes:
        texts: The text of each text feature, cut if it is long.
        label: The name of the row's class.
        prediction: The class that the model predicts.
        probability: The probability of the prediction.
    """

    texts: Mapping[str, str]
    label: str
    prediction: str
    probability: float

    @property
    def right(self) -> bool:
        """Whether the prediction is right."""
        return self.label == self.prediction


def read_dependence(folder: str) -> Dependence | None:
    """Returns the partial dependence of an evaluation; None for an earlier release or a model without importances."""
    content = read_bytes(f"{folder}/{DEPENDENCE_FILE}")
    if content is None:
        return None
    fields: dict[str, Any] = json.loads(content)
    columns = tuple(
        ColumnDependence(
            column=one["column"],
            kind=one["kind"],
            values=tuple(one["values"]),
            places=tuple(one["places"]),
            scores=tuple(tuple(map(number_of, series)) for series in one["scores"]),
        )
        for one in fields["columns"]
    )
    return Dependence(
        fields["rows"], tuple(fields["series"]), tuple(map(number_of, fields["means"])), columns, fields["left_out"]
    )


def read_texts(folder: str) -> tuple[ShownText, ...]:
    """Returns the texts of an evaluation; empty for an earlier release or a model without texts."""
    content = read_bytes(f"{folder}/{TEXTS_FILE}")
    return () if content is None else tuple(ShownText(**one) for one in json.loads(content))
