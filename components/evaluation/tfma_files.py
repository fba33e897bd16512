"""Writes the results of an evaluation in TFMA's file formats, which TFMA's functions and views can read."""

import math
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf
from google.protobuf import json_format
from google.protobuf.message import Message
from tensorflow_model_analysis.proto import config_pb2, validation_result_pb2
from tensorflow_model_analysis.proto import metrics_for_slice_pb2 as pb2
from tensorflow_model_analysis.utils import config_util
from tensorflow_model_analysis.version import VERSION

from fullpass.components.evaluation.confidence import GROUPS, quantile
from fullpass.components.evaluation.config import Bounds, EvaluationConfig
from fullpass.components.evaluation.eval_config import eval_config, metric_threshold
from fullpass.components.evaluation.evaluation_verdict import can_be_judged, measure, reason, slice_bounds
from fullpass.components.evaluation.measured_metrics import ALWAYS_MEASURED, BASELINE, CANDIDATE, Rows
from fullpass.components.evaluation.metrics import METRICS
from fullpass.components.evaluation.scored_rows import SliceValue
from fullpass.components.evaluation.slice_rows import SliceKey
from fullpass.preprocessing.columns.outputs import SPAN

METRICS_FILE = "metrics-00000-of-00001.tfrecord"
VALIDATIONS_FILE = "validations.tfrecord"
CONFIG_FILE = "eval_config.json"


def write_tfma_files(
    folder: str,
    config: EvaluationConfig,
    measured: Mapping[SliceKey, Rows],
    *,
    blessed: bool,
    newest_span: int | None,
    exports: Sequence[str],
) -> None:
    """Writes `metrics`, `validations` and `eval_config.json`.

    Args:
        folder: folder of the evaluation artifact.
        config: the section `evaluation:` of the YAML.
        measured: the metrics of each slice.
        blessed: the verdict.
        newest_span: number of the newest span, as in row ids; None if the source has no spans.
        exports: folders of the SavedModels; the new model first.
    """
    names = (CANDIDATE, BASELINE) if len(exports) > 1 else ("",)
    keys = {key: _slice_key(key, config, newest_span) for key in measured}
    _write_records(f"{folder}/{METRICS_FILE}", [_metrics(keys[key], rows, names) for key, rows in measured.items()])
    validations = validation_result_pb2.ValidationResult(validation_ok=blessed, rubber_stamp=len(exports) == 1)
    whole = validations.validation_details.slicing_details.add(num_matching_slices=1)
    whole.slicing_spec.SetInParent()
    for key, rows in measured.items():
        failures = list(_failures(_bounds(key, rows, config), rows, names[0]))
        if failures:
            validations.metric_validations_per_slice.add(slice_key=keys[key], failures=failures)
    _write_records(f"{folder}/{VALIDATIONS_FILE}", [validations])
    filled = config_util.update_eval_config_with_defaults(
        eval_config(config, newest_span), has_baseline=len(exports) > 1, rubber_stamp=True
    )
    run = config_pb2.EvalRun(
        eval_config=filled, version=VERSION, model_locations=dict(zip(names, exports, strict=True))
    )
    with tf.io.gfile.GFile(f"{folder}/{CONFIG_FILE}", "w") as file:
        file.write(json_format.MessageToJson(run))


def _slice_key(key: SliceKey, config: EvaluationConfig, newest_span: int | None) -> pb2.SliceKey:
    columns = config.slices[key.entry] if key.entry >= 0 else ()
    values: dict[str, SliceValue | int | None] = dict(zip(columns, key.values, strict=True))
    if key.newest:
        values[SPAN] = newest_span
    kinds = {bytes: "bytes_value", float: "float_value", int: "int64_value"}
    # TFMA sorts the columns by name.
    shared = [pb2.SingleSliceKey(column=name, **{kinds[type(values[name])]: values[name]}) for name in sorted(values)]
    return pb2.SliceKey(single_slice_keys=shared)


def _metrics(key: pb2.SliceKey, rows: Rows, names: Sequence[str]) -> pb2.MetricsForSlice:
    """Returns the metrics of a slice for the new model and the last blessed one, and their differences."""
    record = pb2.MetricsForSlice(slice_key=key)
    of_models = ((rows.values, rows.errors), (rows.baseline, rows.baseline_errors))
    for name, (values, errors) in zip(names, of_models, strict=False):
        for metric, value in values.items():
            _add(record, _metric_key(metric, name), value, errors[metric])
    for metric, before in rows.baseline.items():
        key_of_difference = _metric_key(metric, names[0], is_diff=True)
        _add(record, key_of_difference, rows.values[metric] - before, rows.difference_errors[metric])
    return record


def _add(record: pb2.MetricsForSlice, key: pb2.MetricKey, value: float, error: float) -> None:
    """Adds a value, with its 95 % interval if its standard error is known."""
    added = record.metric_keys_and_values.add(key=key, value=_value(value))
    if not math.isnan(error):
        half_width = quantile(0.975) * error
        added.confidence_interval.CopyFrom(
            pb2.ConfidenceInterval(
                lower_bound=_value(value - half_width),
                upper_bound=_value(value + half_width),
                standard_error=_value(error),
                degrees_of_freedom={"value": GROUPS - 1},
            )
        )


def _bounds(key: SliceKey, rows: Rows, config: EvaluationConfig) -> Mapping[str, Bounds]:
    """Returns the bounds that apply to a slice, by metric."""
    if key.entry >= 0:
        every = slice_bounds(config, newest=key.newest)
        return {name: bounds for name, bounds in every.items() if can_be_judged(name, rows, bounds)}
    thresholds = {name: t.newest_span if key.newest else t for name, t in config.thresholds.items()}
    return {name: bounds for name, bounds in thresholds.items() if bounds is not None and bounds.bounds_rows}


def _failures(
    bounds: Mapping[str, Bounds], rows: Rows, model: str
) -> Iterable[validation_result_pb2.ValidationFailure]:
    for name, of_metric in bounds.items():
        measured = measure(name, rows, of_metric)
        if not measured.passed:
            yield validation_result_pb2.ValidationFailure(
                metric_key=_metric_key(name, model),
                metric_value=_value(measured.value),
                metric_threshold=metric_threshold(METRICS[name], of_metric),
                message=reason(measured, of_metric),
            )


def _metric_key(metric: str, model: str, *, is_diff: bool = False) -> pb2.MetricKey:
    weighted = metric != ALWAYS_MEASURED
    return pb2.MetricKey(name=metric, model_name=model, example_weighted={"value": weighted}, is_diff=is_diff)


def _value(value: float) -> pb2.MetricValue:
    return pb2.MetricValue(double_value={"value": value})


def _write_records(path: str, records: Iterable[Message]) -> None:
    with tf.io.TFRecordWriter(f"{path}.tmp") as writer:
        for record in records:
            writer.write(record.SerializeToString())
    tf.io.gfile.rename(f"{path}.tmp", path, overwrite=True)
