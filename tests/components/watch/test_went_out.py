"""Rows with labels, scored or with logged scores, against scikit-learn; and the days that labels came later."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from fullpass.components.evaluation.measure.measure_rows import measured_of
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.watch.log_rows import LogBatch
from fullpass.components.watch.went_out import DAY, Delays, ScoringPlan, WentOutSums, newest_with, out_together
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, SPAN
from tests.components.evaluation.answering_model import Answers, saved

pytestmark = pytest.mark.integration

ACCUMULATOR = SliceAccumulator(("example_count", "auc"), (("shop",),), None, 1)
FIRST = 20_454


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A model whose score is the column `score`."""
    folder = tmp_path_factory.mktemp("model")
    saved(Answers("score"), folder, 1)
    return ScoringPlan(f"{folder}/Format-Serving", {"shop": "string"})


def batch_of(rows, *, days=1, seed=1, logged=None):
    """Returns rows of some days; half of them have a label, which came some hours or days later."""
    draw = np.random.default_rng(seed)
    label, shop = draw.integers(0, 2, rows).astype("f4"), draw.integers(0, 2, rows)
    score = (0.3 + 0.4 * label * draw.random(rows) + 0.2 * draw.random(rows)).astype("f4")
    times = (FIRST * DAY + draw.integers(0, days * DAY, rows)).astype(np.int64)
    numbers = {
        "score": score,
        LABEL: label,
        ROW_ID: np.arange(rows),
        SPAN: np.zeros(rows),
        EXAMPLE_WEIGHT: np.ones(rows),
    }
    arrays = {name: pa.array(of, pa.float32()) for name, of in numbers.items()}
    arrays["shop"] = pa.array([b"ns"[one : one + 1] for one in shop], pa.binary())
    labelled, rates = draw.random(rows) < 0.5, np.where(draw.random(rows) < 0.5, 1.0, 0.1)
    known = np.where(labelled, times + draw.integers(0, 3 * DAY, rows), 0)
    ids = pa.array(map(str, range(rows)))
    return LogBatch(1, np.arange(rows), times, rates, arrays, labelled, known, logged, None, ids)


def sums_of(plan, *batches):
    sums = WentOutSums({1: plan}, ACCUMULATOR)
    for batch in batches:
        sums.add(batch)
    return sums.found


def auc_of(batch, scores):
    mask = batch.labelled
    return roc_auc_score(batch.arrays[LABEL].to_numpy()[mask], scores[mask], sample_weight=1 / batch.rates[mask])


def test_rows_without_logged_scores_are_scored_by_the_version_and_weigh_what_they_stand_for(plan):
    batch = batch_of(3000)
    found = sums_of(plan, batch)
    whole, *slices = measured_of(ACCUMULATOR, found.labelled[1, FIRST])
    assert whole.values["auc"] == pytest.approx(auc_of(batch, batch.arrays["score"].to_numpy()), abs=2e-3)
    assert whole.values["example_count"] == batch.labelled.sum()
    assert {one.keys: one.values["example_count"] for one in slices} == {
        (("shop", name),): (batch.labelled & np.array(pa.compute.equal(batch.arrays["shop"], name.encode()))).sum()
        for name in "ns"
    }


def test_logged_scores_are_the_ones_that_were_answered(plan):
    scores = np.random.default_rng(3).random((3000, 1)).astype("f4")
    batch = batch_of(3000, logged=scores)
    whole = measured_of(ACCUMULATOR, sums_of(plan, batch).labelled[1, FIRST])[0]
    assert whole.values["auc"] == pytest.approx(auc_of(batch, scores[:, 0]), abs=2e-3)


def test_files_together_have_the_days_and_delays_of_all_rows(plan):
    one, other = batch_of(900, days=3), batch_of(500, days=2, seed=2)
    whole = out_together([sums_of(plan, one), sums_of(plan, other)], ACCUMULATOR)
    assert sorted(whole.labelled) == [(1, FIRST), (1, FIRST + 1), (1, FIRST + 2)]
    for day in range(3):
        late = np.concatenate(
            [(b.known_at - b.times)[b.labelled & (b.times // DAY == FIRST + day)] // DAY for b in (one, other)]
        )
        found = whole.delays[1, FIRST + day]
        assert found.sums[:3, 0].tolist() == np.bincount(late, minlength=3).tolist() and found.rows == len(late)


def test_the_newest_days_with_enough_labels():
    days = {day: Delays() for day in (3, 5, 6)}
    for day, rows in ((3, 100), (5, 30), (6, 20)):
        days[day].add(np.zeros(rows, int), np.ones(rows))
    assert [newest_with(days, labels) for labels in (20, 21, 50, 51, 150, 151)] == [
        [6],
        [5, 6],
        [5, 6],
        [3, 5, 6],
        [3, 5, 6],
        [],
    ]
