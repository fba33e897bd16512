"""Hours and days of requests that are logged with different probabilities, against numpy."""

import numpy as np
import pyarrow as pa
import pytest

from fullpass.components.data_gate.series import Series, SeriesSource
from fullpass.components.ingest.spans.span_pattern import label_of
from fullpass.components.watch.came_in import HOUR, HourSketches, periods, watched_series
from fullpass.components.watch.log_rows import LogBatch, Refused
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.config import PreprocessingConfig

SERIES = SeriesSource(
    (Series("km", "km", "number"), Series("zone", "zone", "token")),
    (RawColumn("km", "number"), RawColumn("zone", "string", token=True)),
    {},
)
START = int(np.datetime64("2026-01-08T00:00:00", "us").astype(np.int64))


def batch(hours, rates, km, zone, version=7):
    rows = len(hours)
    return LogBatch(
        version,
        np.arange(rows),
        START + np.asarray(hours) * HOUR,
        np.asarray(rates, float),
        {"km": pa.array(km, pa.float32()), "zone": pa.array([z and z.encode() for z in zone], pa.binary())},
        np.zeros(rows, bool),
        np.zeros(rows, np.int64),
        None,
        None,
        pa.array(map(str, range(rows))),
    )


def test_hours_and_days_have_the_requests_that_sampled_rows_stand_for():
    sketches = HourSketches({7: SERIES})
    sketches.add(batch([0, 0, 1, 25], [1.0, 0.1, 0.5, 1.0], [1, 2, 3, 4], ["a", "b", "a", None]))
    sketches.add_refused(Refused(np.array([7, 7]), START + np.array([0, 1]) * HOUR, np.array([0.5, 1.0])))
    hours, days = periods(sketches.counts(), 7), periods(sketches.counts(), 7, "day")
    assert [hour.name for hour in hours] == ["2026-01-08T00", "2026-01-08T01", "2026-01-09T01"]
    assert [hour.requests for hour in hours] == [1 + 10 + 2, 2 + 1, 1]
    assert [hour.refused for hour in hours] == [2, 1, 0]
    assert [(day.name, day.requests, day.refused) for day in days] == [("2026-01-08", 16, 3), ("2026-01-09", 1, 0)]


def test_shares_are_weighed_and_chance_knows_the_rows():
    rng = np.random.default_rng(3)
    rates = np.where(rng.random(400) < 0.5, 1.0, 0.25)
    zone = np.where(rng.random(400) < 0.3, "a", "b")
    sketches = HourSketches({7: SERIES})
    sketches.add(batch(rng.integers(0, 24, 400), rates, rng.normal(size=400), zone.tolist()))
    (day,) = periods(sketches.counts(), 7, "day")
    weights = 1 / rates
    found = day.summary.distributions["zone"]
    counts = dict(zip(found.values, found.counts, strict=True))
    assert counts["a"] / found.rows == pytest.approx(weights[zone == "a"].sum() / weights.sum())
    assert found.rows == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert day.summary.rows == round(found.rows)


def test_an_hour_has_its_name():
    assert label_of("hour", START // HOUR + 7) == "2026-01-08T07"


def test_a_column_that_the_log_does_not_hold_is_no_series():
    declared = {"features": {"x": "number", "kind": "category"}, "label": {"name": "y", "task": "binary"}}
    found = watched_series(PreprocessingConfig.model_validate(declared), ["x"], None)
    assert {series.column for series in found.series} == {"x", "log_scores", "log_label"}
    assert {column.name for column in found.columns} == {"x", "log_scores", "log_label"}
