"""The partial dependence of an evaluation, as a file. The report reads it, so nothing here imports TensorFlow."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fullpass.components.artifact_files import read_bytes

FILE = "partial_dependence.json"


@dataclass(frozen=True)
class ColumnDependence:
    """The partial dependence on one raw column.

    Attributes:
        column: Its name.
        kind: `number`, `date`, or `value` of categories and booleans.
        values: The values that it was given, as text, [points].
        places: Where numbers, and dates in days since 1970, lie, ascending, [points]; empty for categories.
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
        rows: How many eval rows the means are of.
        series: What the scores are: the positive class, some classes, or `prediction`.
        means: The mean score of each series over the rows as they are, [series].
        columns: The most important first.
        left_out: Important columns without a curve -> why.
    """

    rows: int
    series: tuple[str, ...]
    means: tuple[float, ...]
    columns: tuple[ColumnDependence, ...]
    left_out: Mapping[str, str]


def to_json(dependence: Dependence) -> str:
    """Returns the content of FILE."""
    return json.dumps(asdict(dependence), indent=1)


def read_dependence(folder: str) -> Dependence | None:
    """Returns what an evaluation holds; None for one of an earlier release, or of a model without importances."""
    content = read_bytes(f"{folder}/{FILE}")
    if content is None:
        return None
    found: dict[str, Any] = json.loads(content)
    columns = tuple(
        ColumnDependence(
            column=one["column"],
            kind=one["kind"],
            values=tuple(one["values"]),
            places=tuple(one["places"]),
            scores=tuple(map(tuple, one["scores"])),
        )
        for one in found["columns"]
    )
    return Dependence(found["rows"], tuple(found["series"]), tuple(found["means"]), columns, found["left_out"])
