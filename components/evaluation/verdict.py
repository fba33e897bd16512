"""What the Evaluator found, in words: each metric against its threshold, and why a model was not blessed."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow_model_analysis as tfma

from components.evaluation.config import EvaluationConfig, Threshold
from components.evaluation.eval_config import ALWAYS_MEASURED, BASELINE, CANDIDATE
from components.evaluation.metrics import METRICS

OVERALL: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Measured:
    """One metric over the whole eval split. baseline: the last blessed model's value, if one was compared."""

    metric: str
    value: float
    baseline: float | None
    required: str
    held: bool


@dataclass(frozen=True)
class Slice:
    """Rows that share values of some columns, as `hour 7, company Flash Cab`. values: metric -> value."""

    name: str
    examples: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Verdict:
    """blessed, and if not: the reasons, one line each. examples: rows measured."""

    blessed: bool
    reasons: tuple[str, ...]
    metrics: tuple[Measured, ...]
    examples: int


def read_verdict(evaluation_uri: str, config: EvaluationConfig, *, blessed: bool) -> Verdict:
    """Returns the verdict recorded in an evaluation artifact."""
    values = _overall(evaluation_uri)
    measured = [
        measure(name, values, config.thresholds.get(name))
        for name in dict.fromkeys([*config.metrics, *config.thresholds])
        if (CANDIDATE, name) in values
    ]
    reasons = tuple(reason(m, config.thresholds[m.metric]) for m in measured if not m.held)
    if not blessed and not reasons:
        reasons = ("the eval split has no labelled example",)
    examples = int(values.get((CANDIDATE, ALWAYS_MEASURED), 0))
    return Verdict(blessed, () if blessed else reasons, tuple(measured), examples)


def read_slices(evaluation_uri: str, config: EvaluationConfig) -> tuple[Slice, ...]:
    """Returns the slices recorded in an evaluation artifact, those of most examples first."""
    names = dict.fromkeys([*config.metrics, *config.thresholds])
    slices = []
    for record in _records(evaluation_uri):
        keys = record.slice_key.single_slice_keys
        if keys:
            values = {metric: value for (model, metric), value in _values(record).items() if model == CANDIDATE}
            name = ", ".join(f"{key.column} {_slice_value(key)}" for key in keys)
            measured = {metric: values[metric] for metric in names if metric in values}
            slices.append(Slice(name, int(values.get(ALWAYS_MEASURED, 0)), measured))
    return tuple(sorted(slices, key=lambda one: (-one.examples, one.name)))


def _slice_value(key: Any) -> str:
    kind = key.WhichOneof("kind")
    if kind == "bytes_value":
        return key.bytes_value.decode("utf-8", "replace")
    return f"{getattr(key, kind):g}" if kind else ""


def _overall(evaluation_uri: str) -> dict[tuple[str, str], float]:
    """Returns (model, metric) -> value over all examples."""
    overall = [_values(record) for record in _records(evaluation_uri) if not record.slice_key.single_slice_keys]
    return {key: value for values in overall for key, value in values.items()}


def _records(evaluation_uri: str) -> Iterator[Any]:
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # TFMA reads with a deprecated function, and says so
    yield from tfma.load_metrics(evaluation_uri)


def _values(record: Any) -> dict[tuple[str, str], float]:
    return {
        (item.key.model_name or CANDIDATE, item.key.name): item.value.double_value.value
        for item in record.metric_keys_and_values
        if not item.key.is_diff and item.value.HasField("double_value")
    }


def measure(name: str, values: dict[tuple[str, str], float], threshold: Threshold | None) -> Measured:
    """Returns how a metric of the candidate stands against its threshold and the baseline."""
    value, baseline = values[CANDIDATE, name], values.get((BASELINE, name))
    if threshold is None:
        return Measured(name, value, baseline, "", True)
    return Measured(name, value, baseline, _required(threshold), _holds(name, value, baseline, threshold))


def _required(threshold: Threshold) -> str:
    parts = []
    if threshold.min is not None:
        parts.append(f">= {threshold.min:g}")
    if threshold.max is not None:
        parts.append(f"<= {threshold.max:g}")
    if threshold.not_worse_than is not None:
        parts.append("no worse than blessed" + (f" by over {threshold.tolerance:g}" if threshold.tolerance else ""))
    return ", ".join(parts)


def _holds(name: str, value: float, baseline: float | None, threshold: Threshold) -> bool:
    inside = (threshold.min is None or value >= threshold.min) and (threshold.max is None or value <= threshold.max)
    return inside and not _worse_than_blessed(name, value, baseline, threshold)


def _worse_than_blessed(name: str, value: float, baseline: float | None, threshold: Threshold) -> bool:
    if threshold.not_worse_than is None or baseline is None:
        return False
    loss = baseline - value if METRICS[name].higher_is_better else value - baseline
    return not loss <= threshold.tolerance


def reason(measured: Measured, threshold: Threshold) -> str:
    """Returns why a threshold that did not hold did not, with the YAML path of the limit."""
    name, value, baseline = measured.metric, measured.value, measured.baseline
    if value != value:
        return f"{name} is not a number: the eval split holds one class only, or the model diverged"
    if threshold.min is not None and value < threshold.min:
        return f"{name} is {value:.4f}, below the minimum {threshold.min:g} (evaluation.thresholds.{name}.min)"
    if threshold.max is not None and value > threshold.max:
        return f"{name} is {value:.4f}, above the maximum {threshold.max:g} (evaluation.thresholds.{name}.max)"
    return f"{name} is {value:.4f}, the last blessed model has {baseline:.4f} on the same rows"
