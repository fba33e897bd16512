"""Metrics of classes against scikit-learn and hand-worked values: weights, slices, merged parts, empty classes."""

import numpy as np
import pytest
from sklearn import metrics as sk

from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.measure.sampling_error import group_of
from fullpass.components.evaluation.measure.scored_rows import Scored
from fullpass.components.evaluation.measure.slices import SliceKey
from tests.components.evaluation import measured_rows

CLASSES = ("ape", "bear", "cat", "dog")
OF_ALL = (
    *("balanced_accuracy", "mcc"),
    *("macro_precision", "macro_recall", "macro_f1"),
    *("weighted_precision", "weighted_recall", "weighted_f1"),
)
TOP = ("top_2_accuracy", "top_3_accuracy", "top_5_accuracy")
AREAS = ("macro_auc", "weighted_auc")
OF_BEAR = ("precision[bear]", "recall[bear]", "f1[bear]", "auc[bear]")


def multiclass(rows=1500, seed=3):
    """Rows of four classes of different frequency, with weights, a tenth of them 0, and a column of three zones."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(4, rows, p=[0.5, 0.3, 0.15, 0.05])
    scores = np.stack([rng.dirichlet(1 + 2 * np.eye(4)[label]) for label in labels])
    weights = np.where(rng.random(rows) < 0.1, 0.0, rng.integers(1, 4, rows))
    return labels.astype(float), scores, weights, rng.integers(0, 3, rows)


def measured(names, labels, scores, weights, zones=None, classes=CLASSES, parts=1, **more):
    return measured_rows.measured(names, Scored(labels, weights, scores, classes=classes, **more), zones, parts)


def of_sklearn(labels, scores, weights):
    """Returns the same metrics by scikit-learn."""
    said, known = scores.argmax(axis=1), {"sample_weight": weights}
    found = {
        "balanced_accuracy": sk.balanced_accuracy_score(labels, said, **known),
        "mcc": sk.matthews_corrcoef(labels, said, **known),
    }
    for average in ("macro", "weighted"):
        parts = sk.precision_recall_fscore_support(labels, said, average=average, zero_division=0, **known)
        found |= {f"{average}_{name}": value for name, value in zip(("precision", "recall", "f1"), parts, strict=False)}
        # scikit-learn takes no weights here for several classes, so each class is one against the rest.
        areas = [sk.roc_auc_score(labels == k, scores[:, k], **known) for k in range(4)]
        shares = [weights[labels == k].sum() for k in range(4)] if average == "weighted" else None
        found[f"{average}_auc"] = np.average(areas, weights=shares)
    for k in (2, 3):
        found[f"top_{k}_accuracy"] = sk.top_k_accuracy_score(labels, scores, k=k, **known)
    found["top_5_accuracy"] = 1.0
    found["auc[bear]"] = sk.roc_auc_score(labels == 1, scores[:, 1], **known)
    of_bear = sk.precision_recall_fscore_support(labels == 1, said == 1, average="binary", **known)
    return found | {f"{name}[bear]": v for name, v in zip(("precision", "recall", "f1"), of_bear, strict=False)}


def test_metrics_of_all_rows_and_of_each_slice_are_those_of_sklearn():
    labels, scores, weights, zones = multiclass()
    names = (*OF_ALL, *TOP, *AREAS, *OF_BEAR)
    found, indices = measured(names, labels, scores, weights, zones, parts=3)
    for zone in (None, 0, 1, 2):
        rows = (zones == zone) | (zone is None)
        key = SliceKey(-1, newest=False) if zone is None else SliceKey(0, newest=False, values=(float(zone),))
        for name, value in of_sklearn(labels[rows], scores[rows], weights[rows]).items():
            tolerance = 1e-4 if "auc" in name else 1e-12
            assert found.values[0][name][indices[key]] == pytest.approx(value, abs=tolerance), (zone, name)


@pytest.mark.integration
def test_the_standard_error_is_the_jackknife_of_sklearns_values():
    labels, scores, weights, _ = multiclass()
    names = ("mcc", "macro_f1", "weighted_precision", "recall[bear]", "macro_auc", "weighted_auc")
    found, _ = measured(names, labels, scores, weights)
    groups = group_of(np.arange(len(labels)))
    left = [of_sklearn(*(x[groups != g] for x in (labels, scores, weights))) for g in range(GROUPS)]
    for name in names:
        values = np.array([one[name] for one in left])
        error = np.sqrt((GROUPS - 1) / GROUPS * ((values - values.mean()) ** 2).sum())
        assert 0.98 * error < found.errors[0][name][0] < 1.5 * error, name  # wider, as rows are few


def test_binary_metrics_are_those_of_the_decisions():
    rng = np.random.default_rng(5)
    labels, weights = (rng.random(800) < 0.3) * 1.0, rng.integers(0, 3, 800) * 1.0
    scores = np.clip(rng.beta(2 + labels, 3), 0, 1)
    names = ("f1", "precision", "recall", "accuracy", "balanced_accuracy", "mcc")
    for threshold, more in ((0.5, {}), (0.35, {"positive": scores > 0.35})):
        found, _ = measured(names, labels, scores, weights, classes=("no", "yes"), parts=2, **more)
        said, known = scores > threshold, {"sample_weight": weights}
        expected = {
            "f1": sk.f1_score(labels, said, **known),
            "precision": sk.precision_score(labels, said, **known),
            "recall": sk.recall_score(labels, said, **known),
            "accuracy": sk.accuracy_score(labels, said, **known),
            "balanced_accuracy": sk.balanced_accuracy_score(labels, said, **known),
            "mcc": sk.matthews_corrcoef(labels, said, **known),
        }
        assert {name: found.values[0][name][0] for name in names} == pytest.approx(expected, abs=1e-12)


def test_several_labels_per_row_are_those_of_sklearn():
    rng = np.random.default_rng(6)
    labels = (rng.random((600, 4)) < [0.5, 0.3, 0.1, 0.02]) * 1.0
    scores, weights = rng.beta(1 + 2 * labels, 2), rng.integers(0, 3, 600) * 1.0
    names = ("f1", *(name for name in OF_ALL if name not in ("mcc", "balanced_accuracy")), "precision[cat]")
    found, _ = measured(names, labels, scores, weights, parts=2)
    said, known = scores > 0.5, {"sample_weight": weights}
    for average in ("macro", "weighted"):
        parts = sk.precision_recall_fscore_support(labels, said, average=average, zero_division=0, **known)
        for name, value in zip(("precision", "recall", "f1"), parts, strict=False):
            assert found.values[0][f"{average}_{name}"][0] == pytest.approx(value, abs=1e-12)
    assert found.values[0]["f1"][0] == pytest.approx(sk.f1_score(labels, said, average="micro", **known), abs=1e-12)
    of_cat = sk.precision_score(labels[:, 2], said[:, 2], **known)
    assert found.values[0]["precision[cat]"][0] == pytest.approx(of_cat, abs=1e-12)


def test_classes_without_rows_or_predictions():
    # Three rows of ape, one of bear; predicted ape, ape, cat, ape. There is no dog anywhere.
    labels, said = np.array([0.0, 0, 0, 1]), np.array([0, 0, 2, 0])
    names = (*OF_ALL, *AREAS, *OF_BEAR, "recall[dog]", "f1[cat]", "recall[cat]", "recall[eel]")
    found, _ = measured(names, labels, np.eye(4)[said], np.ones(4))
    values = {name: of[0] for name, of in found.values[0].items()}
    assert values["macro_precision"] == pytest.approx((2 / 3 + 0 + 0) / 3)  # bear 0 / 0 and cat 0 / 1
    assert values["macro_recall"] == pytest.approx((2 / 3 + 0 + 0) / 3)  # bear 0 / 1 and cat 0 / 0
    assert values["balanced_accuracy"] == pytest.approx((2 / 3 + 0) / 2)
    assert values["weighted_f1"] == pytest.approx(3 / 4 * 4 / 6)
    assert values["f1[cat]"] == 0.0 and values["recall[bear]"] == 0.0
    undefined = {name for name, value in values.items() if np.isnan(value)}
    assert undefined == {"precision[bear]", "recall[dog]", "recall[cat]", "recall[eel]"}


@pytest.mark.parametrize(("labels", "area"), [(np.zeros(5), np.nan), (np.arange(5.0) % 2, 0.5)])
def test_a_model_that_predicts_one_class_has_no_correlation(labels, area):
    found, _ = measured(("mcc", "macro_auc"), labels, np.tile([0.9, 0.1, 0, 0], (5, 1)), np.ones(5))
    assert found.values[0]["mcc"][0] == 0.0
    assert found.values[0]["macro_auc"][0] == pytest.approx(area, nan_ok=True)


def test_without_rows_nothing_is_defined():
    none = np.zeros(0)
    found, _ = measured((*OF_ALL, *AREAS, *TOP), none, np.zeros((0, 4)), none)
    assert all(np.isnan(of[0]) for of in found.values[0].values())


def test_a_score_that_is_no_number_makes_the_metrics_none():
    labels, scores, weights, _ = multiclass(200)
    scores[np.flatnonzero(weights)[0]] = np.nan
    found, _ = measured((*OF_ALL, *AREAS, *TOP), labels, scores, weights)
    assert all(np.isnan(of[0]) for of in found.values[0].values())


def test_more_classes_than_curves_have_no_area_and_every_other_metric():
    rng = np.random.default_rng(7)
    labels, scores = rng.integers(0, 60, 900) * 1.0, rng.dirichlet(np.ones(60), 900)
    scores[np.arange(900), labels.astype(int)] += rng.random(900)
    found, _ = measured((*AREAS, "macro_f1", "mcc"), labels, scores, np.ones(900), classes=())
    said = scores.argmax(axis=1)
    assert np.isnan(found.values[0]["macro_auc"][0]) and np.isnan(found.values[0]["weighted_auc"][0])
    assert found.values[0]["macro_f1"][0] == pytest.approx(sk.f1_score(labels, said, average="macro"), abs=1e-12)
    assert found.values[0]["mcc"][0] == pytest.approx(sk.matthews_corrcoef(labels, said), abs=1e-12)


def test_errors_as_percentages_and_the_bias():
    labels, scores = np.array([2.0, 0.0, -4.0, 0.0]), np.array([3.0, 0.0, -2.0, 1.0])
    weights = np.array([1.0, 1.0, 2.0, 1.0])
    found, _ = measured(("smape", "wape", "bias", "mape"), labels, scores, weights, classes=())
    assert found.values[0]["smape"][0] == pytest.approx((100 * 1 / 2.5 + 0 + 2 * 100 * 2 / 3 + 200) / 5)
    assert found.values[0]["wape"][0] == pytest.approx(100 * (1 + 2 * 2 + 1) / (2 + 2 * 4))
    assert found.values[0]["bias"][0] == pytest.approx((1 + 2 * 2 + 1) / 5)
    of_sklearn = sk.mean_absolute_percentage_error(labels[[0, 2]], scores[[0, 2]], sample_weight=weights[[0, 2]])
    assert found.values[0]["mape"][0] == pytest.approx(100 * of_sklearn)


def test_a_label_of_exactly_half_is_predicted_as_in_the_export():
    labels, scores = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[0.5, 0.49], [0.5, 0.5]])
    names = ("precision", "recall", "f1", "macro_recall", "recall[ape]")
    found, _ = measured(names, labels, scores, np.ones(2), classes=("ape", "bear"))
    assert [found.values[0][name][0] for name in names] == [1.0] * 5
