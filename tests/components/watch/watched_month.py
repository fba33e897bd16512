"""The month of examples/watch as a module, and its orders as a reader of the log gives them."""

import importlib.util
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from fullpass.components.data_gate.series import Series, SeriesSource
from fullpass.components.data_gate.span_summary import SpanSummary, merge_parts
from fullpass.components.watch.came_in import HourSketches
from fullpass.components.watch.log_rows import LogBatch
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "watch"
NUMBERS, TOKENS = ("distance_km", "weight_kg"), ("shop", "express")
SERIES = SeriesSource(
    (*(Series(name, name, "number") for name in NUMBERS), *(Series(name, name, "token") for name in TOKENS)),
    (*(RawColumn(name, "number") for name in NUMBERS), *(RawColumn(name, "string", token=True) for name in TOKENS)),
    {},
)


def load_month() -> ModuleType:
    """Returns examples/watch/month.py."""
    spec = importlib.util.spec_from_file_location("month", EXAMPLE / "month.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def batch_of(orders: dict[str, Any], version: int = 1) -> LogBatch:
    """Returns orders as answered rows without scores and labels, all of them logged."""
    rows = len(orders["late"])
    arrays = {name: pa.array(orders[name], pa.float32(), mask=np.isnan(orders[name])) for name in NUMBERS}
    arrays |= {name: pa.array([text.encode() for text in orders[name]], pa.binary()) for name in TOKENS}
    times = orders["placed_at"].astype("datetime64[us]").astype(np.int64)
    nothing = np.zeros(rows, np.int64)
    ids = pa.array(orders["order_id"].tolist())
    return LogBatch(version, np.arange(rows), times, np.ones(rows), arrays, nothing > 0, nothing, None, None, ids)


def summary_of(*batches: LogBatch) -> SpanSummary:
    """Returns the distributions of the rows of a version, as its training rows have them."""
    sketches = HourSketches({batches[0].version: SERIES})
    for batch in batches:
        sketches.add(batch)
    hours = sketches.counts().values()
    rows = sum(hour.rows for hour in hours)
    return merge_parts(0, "the training rows", "", rows, [hour.distributions for hour in hours])
