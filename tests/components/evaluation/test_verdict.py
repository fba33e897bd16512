import math

import pytest

from components.evaluation.config import Threshold
from components.evaluation.verdict import measure, reason


def judged(name, value, baseline, threshold):
    values = {("candidate", name): value}
    if baseline is not None:
        values["baseline", name] = baseline
    return measure(name, values, threshold)


@pytest.mark.parametrize(
    ("name", "value", "baseline", "threshold", "held"),
    [
        ("auc", 0.8, None, Threshold(min=0.8), True),
        ("auc", 0.79, None, Threshold(min=0.8), False),
        ("log_loss", 0.5, None, Threshold(max=0.4), False),
        ("auc", 0.8, 0.81, Threshold(not_worse_than="blessed"), False),
        ("auc", 0.8, 0.81, Threshold(not_worse_than="blessed", tolerance=0.02), True),
        ("log_loss", 0.42, 0.41, Threshold(not_worse_than="blessed"), False),
        ("log_loss", 0.40, 0.41, Threshold(not_worse_than="blessed"), True),
        ("auc", 0.2, None, Threshold(not_worse_than="blessed"), True),  # a first run has nothing to compare with
        ("auc", math.nan, 0.5, Threshold(min=0.1), False),
        ("auc", math.nan, 0.5, Threshold(not_worse_than="blessed"), False),
        ("auc", 0.1, None, None, True),
    ],
)
def test_held(name, value, baseline, threshold, held):
    assert judged(name, value, baseline, threshold).held is held


@pytest.mark.parametrize(
    ("name", "value", "baseline", "threshold", "says"),
    [
        ("auc", 0.79, None, Threshold(min=0.8), "auc is 0.7900, below the minimum 0.8 (evaluation.thresholds.auc.min)"),
        ("log_loss", 0.5, None, Threshold(max=0.4), "log_loss is 0.5000, above the maximum 0.4"),
        ("auc", 0.8, 0.81, Threshold(not_worse_than="blessed"), "the last blessed model has 0.8100"),
        ("auc", math.nan, None, Threshold(min=0.8), "auc is not a number"),
    ],
)
def test_the_reason_is_in_words(name, value, baseline, threshold, says):
    assert says in reason(judged(name, value, baseline, threshold), threshold)
