"""The kept classes of an evaluation, against counts by hand and by scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as sk

from fullpass.base.json_text import to_json_text
from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.measure.class_results import FILE, read_class_results
from fullpass.components.evaluation.measure.sampling_error import group_of
from fullpass.components.evaluation.measure.scored_rows import Scored
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from tests.components.evaluation.measured_rows import scored_by


def results(labels, scores, names, metrics=("macro_f1", "macro_auc"), weights=None):
    """Returns the classes of one model that scores the rows."""
    one = SliceAccumulator(metrics, (), None, 1)
    scored = Scored(labels, np.ones(len(labels)) if weights is None else weights, scores, classes=names)
    (found,) = one.classes(one.merge([one.add(one.start(), scored_by(scored))]))
    return found


def test_the_matrix_and_its_errors_are_those_of_the_rows():
    rng = np.random.default_rng(1)
    labels, weights = rng.integers(0, 3, 900) * 1.0, rng.integers(0, 3, 900) * 1.0
    scores = rng.dirichlet(np.ones(3), 900) + 0.3 * np.eye(3)[labels.astype(int)]
    found = results(labels, scores, ("a", "b", "c"), weights=weights)
    said = scores.argmax(axis=1)
    expected = sk.confusion_matrix(labels, said, sample_weight=weights)
    assert found.is_whole
    assert [cell.weight for cell in found.cells] == pytest.approx(expected.ravel())
    assert [cell.share for cell in found.cells] == pytest.approx((expected / expected.sum(axis=1)[:, None]).ravel())
    assert [(cell.label, cell.predicted) for cell in found.cells[:4]] == [
        ("a", "a"),
        ("a", "b"),
        ("a", "c"),
        ("b", "a"),
    ]
    groups = group_of(np.arange(900))
    left = [
        sk.confusion_matrix(*(x[groups != g] for x in (labels, said)), sample_weight=weights[groups != g])
        for g in range(GROUPS)
    ]
    shares = np.array([one[0, 1] / one[0].sum() for one in left])
    error = np.sqrt((GROUPS - 1) / GROUPS * ((shares - shares.mean()) ** 2).sum())
    assert error < found.cells[1].error < 1.1 * error  # of few rows, a share varies more than the groups show
    by_name = {one.name: one for one in found.classes}
    for k, name in enumerate("abc"):
        parts = sk.precision_recall_fscore_support(labels == k, said == k, average="binary", sample_weight=weights)
        assert [value for value, _ in by_name[name].metrics.values()] == pytest.approx(parts[:3])
    assert [one.weight for one in found.classes] == sorted((one.weight for one in found.classes), reverse=True)


def test_the_curves_of_a_class_are_against_all_others():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 2000) * 1.0
    scores = np.stack([rng.dirichlet(1 + 2 * np.eye(3)[int(label)]) for label in labels])
    found = results(labels, scores, ("a", "b", "c"))
    false, true, _ = sk.roc_curve(labels == 1, scores[:, 1])
    for x, y in list(zip(found.roc["b"].x, found.roc["b"].y, strict=True))[5::10]:
        assert y == pytest.approx(np.interp(x, false, true), abs=0.01)
    assert found.precision_recall.keys() == found.roc.keys() == {"a", "b", "c"}
    assert not results(labels, scores, ("a", "b", "c"), metrics=("macro_f1",)).roc


def test_of_many_classes_the_most_confused_pairs_are_kept():
    names = tuple(f"c{k}" for k in range(25))
    labels = np.repeat(np.arange(25.0), 4)
    said = labels.astype(int)
    said[12:15], said[40:42], said[99] = 7, 3, 0  # three rows of c3, two of c10, one of c24
    found = results(labels, np.eye(25)[said], names)
    assert [(c.label, c.predicted, c.weight, c.share) for c in found.cells] == [
        ("c3", "c7", 3.0, 0.75),
        ("c10", "c3", 2.0, 0.5),
        ("c24", "c0", 1.0, 0.25),
    ]
    assert not found.is_whole and found.count == 25


def test_rows_of_several_labels_have_classes_and_no_matrix():
    labels = np.array([[1.0, 0], [1, 1], [0, 1], [0, 0]])
    scores = np.array([[0.9, 0.8], [0.9, 0.2], [0.1, 0.9], [0.1, 0.1]])
    found = results(labels, scores, ("x", "y"), metrics=("macro_f1",))
    assert found.cells == ()
    assert [one.metrics["precision"][0] for one in found.classes] == [1.0, 0.5]


def test_classes_are_read_as_they_were_written(tmp_path):
    found = results(np.array([0.0, 0, 1]), np.array([[0.9, 0.1, 0], [0.2, 0.8, 0], [0.1, 0.9, 0]]), ("a", "b", "c"))
    (tmp_path / FILE).write_text(to_json_text([found, None]))
    assert "NaN" not in (tmp_path / FILE).read_text()
    read, none = read_class_results(str(tmp_path))
    assert none is None and repr(read) == repr(found)
    assert read_class_results(str(tmp_path / "earlier")) == []
    assert results(np.zeros(0), np.zeros((0, 2)), ("a", "b")) is None
