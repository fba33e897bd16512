"""Dates and durations as features; test_dates and test_date_ops test the parsing of dates."""

import pytest

pytestmark = pytest.mark.integration


def test_dates_and_durations(assert_transform):
    analysed = assert_transform(
        {
            "at": {"type": "date", "parts": ["month", "day_of_week", "weekend", "hour", "year", "epoch"]},
            "circle": {"type": "date", "column": "at", "parts": ["hour", "weekend", "year"], "cyclic": True},
            "day": {"type": "date", "format": "%d.%m.%y", "parts": ["day"]},
            "took": {"type": "duration", "start": "at", "end": "until", "unit": "hours", "transforms": [],
                     "missing": "max", "indicator": True},
            "took_buckets": {"type": "duration", "start": "at", "end": "until", "unit": "minutes",
                             "transforms": [{"bucketize": {"boundaries": [60]}}]},
        },
        analyze={
            "at": ["2020-01-01", "2022-01-01T06:00", None, "not a date"],
            "until": ["2020-01-01 03:00", "2022-01-01T06:30", "2022-01-01", None],
            "day": [None] * 4,
        },
        apply={
            "at": ["2023-12-30 18:00", "2021-01-01", None, "2021-02-30", "2020-01-01"],
            "until": ["2023-12-31", "2021-01-01T00:15:00", "2021-01-01", None, None],
            "day": ["31.01.24", None, "1.2.03", "32.1.03", ""],
        },
        expected={
            "at.month_xf": [12, 1, 0, 0, 1],
            "at.day_of_week_xf": [6, 5, 0, 0, 3],  # Saturday, Friday, Wednesday; Monday is 1.
            "at.weekend_xf": [2, 1, 0, 0, 1],
            "at.hour_xf": [19, 1, 0, 0, 1],
            "at.year_xf": [2, 0, 0, 0, -1],  # Mean 2021, deviation 1.
            "at.epoch_xf": [(19721.75 - 18627.625) / 365.625, (18628 - 18627.625) / 365.625, 0, 0, -1],
            "circle.hour_xf": [[-1, 0], [0, 1], [0, 0], [0, 0], [0, 1]],
            "circle.weekend_xf": [2, 1, 0, 0, 1],
            "circle.year_xf": [2, 0, 0, 0, -1],
            "day.day_xf": [31, 0, 1, 0, 0],
            "took_xf": [6, 0.25, 3, 3, 3],
            "took.missing_xf": [0, 0, 1, 1, 1],
            "took_buckets_xf": [2, 1, 0, 0, 0],
        },
    )  # fmt: skip
    assert [analysed.size(f"at.{part}_xf") for part in ("month", "day_of_week", "weekend", "hour")] == [13, 8, 3, 25]
    assert analysed.size("day.day_xf") == 32
