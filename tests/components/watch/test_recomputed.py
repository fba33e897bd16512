"""Logged answers beside new ones: which rows differ, since when, and a bounded sample."""

import numpy as np
import pyarrow as pa

from fullpass.components.watch.came_in import HOUR
from fullpass.components.watch.config import AnswersCheck
from fullpass.components.watch.log_rows import LogBatch
from fullpass.components.watch.recomputed import HourlySample, Recomputed, judge_recomputed, recomputed

START = int(np.datetime64("2026-01-08T00:00:00", "us").astype(np.int64))


def batch_of(times, scores):
    rows = len(times)
    ids = pa.array([f"r{n}" for n in range(rows)])
    ones, none = np.ones(rows), np.zeros(rows, np.int64)
    order = np.arange(rows) * 7919 % 1009  # hashes of ids are in no order
    return LogBatch(3, order, np.asarray(times), ones, {}, none.astype(bool), none, scores, None, ids)


def test_rows_beyond_the_tolerance_differ_since_the_first_of_them():
    again = np.array([[0.5], [0.25], [2000.0], [np.nan], [0.75]])
    logged = np.array([[0.50001], [0.35], [2000.1], [np.nan], [np.nan]], np.float32)
    hours = START + np.array([5, 3, 1, 0, 4]) * HOUR
    found = recomputed(batch_of(hours, logged), again, 1e-4)
    assert (found.rows, found.differing, found.first) == (5, 2, START + 3 * HOUR)
    assert abs(found.largest - 0.1) < 1e-6
    assert found.example == "r1: logged [0.35], now [0.25]"
    assert recomputed(batch_of(hours, logged), again, 0.2).differing == 1  # what was a number is none


def test_another_number_of_scores_differs_in_every_row():
    found = recomputed(batch_of([START] * 3, np.ones((3, 2), np.float32)), np.ones((3, 1)), 1e-4)
    assert (found.rows, found.differing, found.largest) == (3, 3, np.inf)


def test_each_hour_gives_as_many_rows_over_all_batches():
    times = START + np.repeat([0, 1, 2], [300, 300, 20]) * HOUR
    batch = batch_of(times, None)
    sample, counts = HourlySample(), np.zeros(3, int)
    for mask in (np.arange(620) % 2 == 0, np.arange(620) % 2 == 1):
        part = batch.chosen(mask)
        counts += np.bincount((part.times - START)[sample.of(part)] // HOUR, minlength=3)
    assert counts.tolist() == [50, 50, 20]
    assert (HourlySample().of(batch) == HourlySample().of(batch)).all()


def test_a_share_above_the_limit_is_found_by_day():
    day = START // HOUR // 24
    days = {
        day: Recomputed(1000, 1, 0.5, START, "r1: logged [0.5], now [1.]"),
        day + 1: Recomputed(1000, 20, 0.3, START + 30 * HOUR, "r2: logged [0.5], now [0.2]"),
        day + 2: Recomputed(500, 500, 0.4, START + 48 * HOUR, "r3: logged [0.5], now [0.1]"),
    }
    [finding] = judge_recomputed(days, 3, AnswersCheck(policy="stop"))
    assert (finding.check, finding.first, finding.last, finding.policy) == (
        "answers",
        "2026-01-09T06",
        "2026-01-10",
        "stop",
    )
    assert finding.text.startswith("100.0% of 500 answers of version 3") and "row r3: logged [0.5]" in finding.text
    assert days[day].join(days[day + 1]) == Recomputed(2000, 21, 0.5, START, "r1: logged [0.5], now [1.]")
    assert Recomputed().join(days[day + 2]) == days[day + 2]
