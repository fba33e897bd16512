import json

from fullpass.components.evaluation.config import EvaluationConfig, SliceBounds, SlicedBounds, Threshold
from fullpass.components.evaluation.eval_config import eval_config


def by_name(config):
    specs = eval_config(config).metrics_specs
    return {json.loads(metric.config)["name"]: metric for spec in specs for metric in spec.metrics}


def test_there_is_always_a_threshold_so_that_there_is_always_a_verdict():
    metrics = by_name(EvaluationConfig(metrics=("auc",)))
    (threshold,) = metrics["example_count"].per_slice_thresholds
    assert threshold.threshold.value_threshold.lower_bound.value == 1.0
    assert not metrics["auc"].per_slice_thresholds
    assert [spec.example_weights.unweighted for spec in eval_config(EvaluationConfig()).metrics_specs] == [True, False]


def test_thresholds_hold_for_all_examples_together_not_for_each_slice():
    config = EvaluationConfig(slices=(("hour",),), thresholds={"auc": Threshold(min=0.8)})
    (threshold,) = by_name(config)["auc"].per_slice_thresholds
    (slicing,) = threshold.slicing_specs
    assert not slicing.feature_keys and threshold.threshold.value_threshold.lower_bound.value == 0.8


def test_a_loss_may_rise_by_the_tolerance_only():
    config = EvaluationConfig(thresholds={"log_loss": Threshold(max=1.0, not_worse_than="blessed", tolerance=0.02)})
    (threshold,) = by_name(config)["log_loss"].per_slice_thresholds
    change = threshold.threshold.change_threshold
    assert change.absolute.value == 0.02 and change.direction == 1  # LOWER_IS_BETTER
    assert threshold.threshold.value_threshold.upper_bound.value == 1.0


def test_a_score_may_fall_by_the_tolerance_only():
    config = EvaluationConfig(thresholds={"auc": Threshold(not_worse_than="blessed", tolerance=0.01)})
    (threshold,) = by_name(config)["auc"].per_slice_thresholds
    change = threshold.threshold.change_threshold
    assert change.absolute.value == -0.01 and change.direction == 2  # HIGHER_IS_BETTER


def test_the_newest_span_is_measured_and_judged_for_itself():
    bounds = SlicedBounds(not_worse_than="blessed", tolerance=0.02)
    threshold = Threshold(not_worse_than="blessed", newest_span=bounds)
    config = EvaluationConfig(slices=(("hour",),), thresholds={"auc": threshold})
    made = eval_config(config, newest_span=36)
    slices = [(list(s.feature_keys), dict(s.feature_values)) for s in made.slicing_specs]
    assert slices == [([], {}), ([], {"span": "36"}), (["hour"], {}), (["hour"], {"span": "36"})]
    [(whole,), (newest,)] = [t.slicing_specs for t in made.metrics_specs[1].metrics[0].per_slice_thresholds]
    assert not whole.feature_values and dict(newest.feature_values) == {"span": "36"}
    changes = [t.threshold.change_threshold for t in made.metrics_specs[1].metrics[0].per_slice_thresholds]
    assert [change.absolute.value for change in changes] == [0.0, -0.02]


def test_without_spans_a_threshold_on_the_newest_judges_nothing():
    config = EvaluationConfig(thresholds={"auc": Threshold(newest_span=SlicedBounds(min=0.8))})
    assert not by_name(config)["auc"].per_slice_thresholds


def test_thresholds_on_slices_are_not_passed_to_tfma():
    on_slices = SliceBounds(min=0.8)
    threshold = Threshold(slices=on_slices, newest_span=SlicedBounds(slices=on_slices))
    made = eval_config(EvaluationConfig(slices=(("hour",),), thresholds={"auc": threshold}), newest_span=36)
    assert not made.metrics_specs[1].metrics[0].per_slice_thresholds


def test_slices_and_the_last_blessed_model():
    config = eval_config(EvaluationConfig(metrics=("auc",), slices=(("hour",), ("hour", "company"))))
    assert [list(s.feature_keys) for s in config.slicing_specs] == [[], ["hour"], ["hour", "company"]]
    assert [(m.name, m.is_baseline) for m in config.model_specs] == [("candidate", False), ("baseline", True)]
