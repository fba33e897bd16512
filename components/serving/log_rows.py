"""Turns an answered or refused request into lines of the request log."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from fullpass.components.serving.rest import plain_values
from fullpass.components.serving.served_model import ServedModel
from fullpass.components.serving_log import columns
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.trainer.export.export_files import SERVING_DEFAULT, SERVING_RAW
from fullpass.trainer.export.sample_requests import request_json, to_row

LOGGED = (SERVING_RAW, SERVING_DEFAULT)
"""Signatures whose requests are logged: those that take raw columns."""


@dataclass
class Exchange:
    """A request with its answer; the server fills it while it answers.

    Attributes:
        latency: Seconds until the answer was ready.
        error: Why it was refused; empty if it was answered.
        inputs: The inputs of its signature; empty if they could not be read.
        ids: The caller's id of each row; empty if there are none.
        outputs: The outputs of the model; empty if it was refused.
        rows: Its rows; 0 if they could not be read.
        size: The bytes of its body.
    """

    id: str
    arrived: datetime
    model: ServedModel
    latency: float = 0.0
    status: int = 200
    size: int = 0
    error: str = ""
    signature: str = SERVING_DEFAULT
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    ids: Sequence[str | None] = ()
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    rows: int = 0

    @property
    def log_rows(self) -> int:
        """Its rows in the log: a request whose rows could not be read has one."""
        return self.rows or 1


def logged_columns(model: ServedModel, left_out: Collection[str]) -> dict[str, RawColumn]:
    """Returns the raw columns that are logged: those with data of persons are not."""
    return {name: column for name, column in model.columns.items() if name not in {*left_out, *model.personal}}


def lines_of(exchange: Exchange, sampled: float, left_out: Collection[str]) -> Iterator[str]:
    """Yields the lines of a request, without line breaks.

    Args:
        sampled: The probability with which it is logged.
        left_out: Raw columns that are not logged.
    """
    shared = {
        columns.REQUEST.name: exchange.id,
        columns.TIME.name: exchange.arrived.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        columns.VERSION.name: exchange.model.version,
        columns.SAMPLED.name: sampled,
        columns.LATENCY.name: round(exchange.latency * 1e3, 3),
        columns.STATUS.name: exchange.status,
        **({columns.ERROR.name: exchange.error} if exchange.error else {}),
    }
    if not exchange.rows:
        yield request_json({columns.ID.name: exchange.id, **shared})
        return
    kept = logged_columns(exchange.model, left_out)
    answers, raw = _answers(exchange), _raw_rows(exchange, kept)
    for number in range(exchange.rows):
        given = exchange.ids[number] if exchange.ids else None
        own = {columns.ID.name: given or f"{exchange.id}-{number}", **shared, columns.ROW.name: number}
        yield request_json({**own, **answers[number], **raw[number]})


def _answers(exchange: Exchange) -> list[dict[str, Any]]:
    if not exchange.outputs:
        return [{} for _ in range(exchange.rows)]
    scores = plain_values(exchange.outputs["scores"].reshape(exchange.rows, -1))
    found = [{columns.SCORES.name: [one if math.isfinite(one) else None for one in row]} for row in scores]
    if exchange.model.is_regression:
        return found
    labels = plain_values(exchange.outputs["prediction"])
    return [{**row, columns.LABEL.name: label} for row, label in zip(found, labels, strict=True)]


def _raw_rows(exchange: Exchange, kept: Mapping[str, RawColumn]) -> list[dict[str, Any]]:
    """Returns the cells of each row that are not missing."""
    if exchange.signature == SERVING_DEFAULT:
        examples = exchange.inputs["examples"].tolist()
        rows = [{name: _cell(cell, kept[name]) for name, cell in to_row(one, kept).items()} for one in examples]
    else:
        inputs = {name: exchange.inputs[exchange.model.keys[name]] for name in kept}
        cells = {name: _cells(array, kept[name]) for name, array in inputs.items() if len(array) == exchange.rows}
        rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
        rows = rows or [{} for _ in range(exchange.rows)]
    return [{name: cell for name, cell in row.items() if cell is not None} for row in rows]


def _cells(array: np.ndarray, column: RawColumn) -> list[Any]:
    values = array.tolist() if array.dtype.kind == "O" else plain_values(array)
    return [_cell(value, column) for value in values]


def _cell(value: Any, column: RawColumn) -> Any:
    """Returns a value as the log holds it, None for a missing one; text that is not UTF-8 loses its other bytes."""
    if isinstance(value, list):
        found = [_cell(one, column) for one in value]
        while column.many and found and found[-1] is None:
            found.pop()
        return found if any(one is not None for one in found) else None
    if isinstance(value, bytes) and not column.image:
        value = value.decode("utf-8", "replace")
    return None if value in ("", b"") or (isinstance(value, float) and math.isnan(value)) else value
