"""Converts `evaluation:` of the YAML to a TFMA EvalConfig."""

import json

from google.protobuf import wrappers_pb2
from tensorflow_model_analysis.proto import config_pb2 as tfma

from fullpass.components.evaluation.config import Bounds, EvaluationConfig, Threshold
from fullpass.components.evaluation.measure.measured_metrics import ALWAYS_MEASURED
from fullpass.components.evaluation.measure.metrics import METRICS, Metric
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, SPAN
from fullpass.trainer.export.export_files import SERVING_DEFAULT, TRANSFORM_FEATURES

CANDIDATE, BASELINE = "candidate", "baseline"
TFMA_CLASSES = {
    "auc": "AUC",
    "auc_pr": "AUCPrecisionRecall",
    "accuracy": "BinaryAccuracy",
    "precision": "Precision",
    "recall": "Recall",
    "log_loss": "BinaryCrossEntropy",
    "calibration": "Calibration",
    "multiclass_accuracy": "SparseCategoricalAccuracy",
    "multiclass_log_loss": "SparseCategoricalCrossentropy",
    "mse": "MeanSquaredError",
    "rmse": "RootMeanSquaredError",
    "mae": "MeanAbsoluteError",
    "mape": "MeanAbsolutePercentageError",
    "r2": "SquaredPearsonCorrelation",
}
"""Metric -> the equal class of TFMA or Keras; the other metrics have none."""


def eval_config(config: EvaluationConfig, newest_span: int | None = None) -> tfma.EvalConfig:
    """Returns TFMA's config: metrics, slices, all thresholds except those on slices, and the baseline model.

    Labels and weights come from the export's `transform_features`, predictions from `serving_default`.

    Args:
        config: the section `evaluation:` of the YAML.
        newest_span: number of the newest span, as in row ids. It is also measured separately, with its slices. None if
            the source has no spans.
    """
    newest = {} if newest_span is None else {SPAN: str(newest_span)}
    rows = [{}, newest] if newest else [{}]
    spec = {
        "signature_name": SERVING_DEFAULT,
        "prediction_key": "scores",
        "label_key": LABEL,
        "example_weight_key": EXAMPLE_WEIGHT,
        "preprocessing_function_names": [TRANSFORM_FEATURES],
    }
    names = [name for name in dict.fromkeys([*config.metrics, *config.thresholds]) if name in TFMA_CLASSES]
    metrics = [_metric(METRICS[name], name, config.thresholds.get(name), newest) for name in names]
    return tfma.EvalConfig(
        model_specs=[tfma.ModelSpec(name=CANDIDATE, **spec), tfma.ModelSpec(name=BASELINE, is_baseline=True, **spec)],
        slicing_specs=[
            tfma.SlicingSpec(feature_keys=list(columns), feature_values=values)
            for columns in ((), *config.slices)
            for values in rows
        ],
        metrics_specs=[
            tfma.MetricsSpec(metrics=[_example_count()], example_weights=tfma.ExampleWeightOptions(unweighted=True)),
            tfma.MetricsSpec(metrics=metrics),
        ],
    )


def _example_count() -> tfma.MetricConfig:
    at_least_one = tfma.GenericValueThreshold(lower_bound=wrappers_pb2.DoubleValue(value=1.0))
    return tfma.MetricConfig(
        class_name="ExampleCount",
        config=json.dumps({"name": ALWAYS_MEASURED}),
        per_slice_thresholds=[_on({}, tfma.MetricThreshold(value_threshold=at_least_one))],
    )


def _metric(metric: Metric, name: str, threshold: Threshold | None, newest: dict[str, str]) -> tfma.MetricConfig:
    config = tfma.MetricConfig(class_name=TFMA_CLASSES[name], config=json.dumps({"name": name}))
    if threshold is not None:
        if threshold.bounds_rows:
            config.per_slice_thresholds.append(_on({}, metric_threshold(metric, threshold)))
        if threshold.newest_span is not None and threshold.newest_span.bounds_rows and newest:
            config.per_slice_thresholds.append(_on(newest, metric_threshold(metric, threshold.newest_span)))
    return config


def _on(values: dict[str, str], threshold: tfma.MetricThreshold) -> tfma.PerSliceMetricThreshold:
    """Returns a threshold on all examples or on one span; TFMA's plain `threshold` would also apply to every slice."""
    return tfma.PerSliceMetricThreshold(slicing_specs=[tfma.SlicingSpec(feature_values=values)], threshold=threshold)


def metric_threshold(metric: Metric, threshold: Bounds) -> tfma.MetricThreshold:
    """Returns the bounds of a metric as a TFMA MetricThreshold."""
    result = tfma.MetricThreshold()
    if threshold.min is not None:
        result.value_threshold.lower_bound.value = threshold.min
    if threshold.max is not None:
        result.value_threshold.upper_bound.value = threshold.max
    if threshold.not_worse_than is not None:
        directions = tfma.MetricDirection
        result.change_threshold.direction = (
            directions.HIGHER_IS_BETTER if metric.higher_is_better else directions.LOWER_IS_BETTER
        )
        result.change_threshold.absolute.value = (
            -threshold.tolerance if metric.higher_is_better else threshold.tolerance
        )
    return result
