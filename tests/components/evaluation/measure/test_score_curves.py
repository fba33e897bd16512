"""Curves against their definitions on all scores, and their errors against the errors of shares."""

import numpy as np
import pytest

from fullpass.base.json_text import to_json_text
from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.measure import score_curves as of_evaluation
from fullpass.components.evaluation.measure.score_buckets import SparseHistograms, cell_of
from fullpass.components.evaluation.measure.score_curves import curves_of

ROWS = 20_000


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    labels = (rng.random(ROWS) < 0.3).astype(float)
    return rng.beta(2 + labels, 4 - labels), labels


def curves(scores, labels):
    """Returns the curves of the second of two sets of rows."""
    groups = np.arange(len(scores)) % GROUPS
    cells, of_set = cell_of(scores), SparseHistograms.CELLS
    whole = SparseHistograms.sums(of_set + cells, labels, 1 - labels)
    grouped = SparseHistograms.sums((GROUPS + groups) * of_set + cells, labels, 1 - labels)
    return curves_of(whole, grouped, 1)


def test_roc_and_precision_are_those_at_every_threshold(rows):
    scores, labels = rows
    found = curves(scores, labels)
    order = np.argsort(-scores)
    true, false = np.cumsum(labels[order]), np.cumsum(1 - labels[order])
    for x, y, _ in zip(*vars(found.roc).values(), strict=True):
        reached = false / false[-1] >= x
        assert y == pytest.approx((true / true[-1])[reached][0], abs=2e-3)
    for x, y, _ in zip(*vars(found.precision_recall).values(), strict=True):
        first = np.flatnonzero(true / true[-1] >= x - 1e-9)[0]
        assert y == pytest.approx(true[first] / (first + 1), abs=5e-3)


def test_a_threshold_is_that_of_its_point(rows):
    scores, labels = rows
    found = curves(scores, labels)
    for threshold, x, y in zip(found.thresholds, found.roc.x, found.roc.y, strict=True):
        assert (scores[labels == 0] >= threshold).mean() == pytest.approx(x, abs=5e-3)
        assert (scores[labels == 1] >= threshold).mean() == pytest.approx(y, abs=5e-3)


def test_decisions_are_those_of_numpy_at_each_threshold(rows):
    scores, labels = rows
    found = curves(scores, labels).decisions
    assert (found.positive, found.negative) == (labels.sum(), (1 - labels).sum())
    assert found.thresholds == pytest.approx(np.arange(101) / 100)
    for threshold, true, false in zip(found.thresholds, found.true, found.false, strict=True):
        # A bucket is at most 2**-14 wide; the threshold may lie anywhere in it.
        for weight, of in ((true, labels == 1), (false, labels == 0)):
            at_most = (scores[of] >= threshold - 2**-14).sum()
            assert (scores[of] >= threshold).sum() <= weight <= at_most


def test_a_point_of_calibration_is_a_tenth_of_the_rows(rows):
    scores, labels = rows
    found = curves(scores, labels).calibration
    assert len(found.x) == 10
    for rank, part in enumerate(np.array_split(np.argsort(scores), 10)):
        assert found.x[rank] == pytest.approx(scores[part].mean(), abs=0.005)
        assert found.y[rank] == pytest.approx(labels[part].mean(), abs=0.03)
        share = labels[part].mean()
        assert found.error[rank] == pytest.approx(np.sqrt(share * (1 - share) / len(part)), rel=0.5)


def test_a_perfect_order_by_hand():
    found = curves(np.array([0.1, 0.2, 0.8, 0.9]), np.array([0.0, 0, 1, 1]))
    assert found.roc.y[1:] == pytest.approx([1.0] * 100) and found.precision_recall.y == pytest.approx([1.0] * 100)


def test_rows_of_one_class_have_no_curves():
    assert curves(np.array([0.2, 0.7]), np.ones(2)) is None


def test_curves_are_read_as_they_were_written(tmp_path):
    written = curves(np.array([0.2, 0.7]), np.array([0.0, 1]))
    assert all(np.isnan(written.roc.error))  # without either row, only one class is left
    (tmp_path / of_evaluation.FILE).write_text(to_json_text([written, None]))
    read, none = of_evaluation.read_curves(str(tmp_path))
    assert none is None and repr(read) == repr(written)
    assert of_evaluation.read_curves(str(tmp_path / "earlier")) == []
