"""What the Evaluator found, in words: each metric against its threshold, and why a model was not blessed."""

import logging
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


def _overall(evaluation_uri: str) -> dict[tuple[str, str], float]:
    """Returns (model, metric) -> value over all examples."""
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # TFMA reads with a deprecated function, and says so
    found: dict[tuple[str, str], float] = {}
    for record in tfma.load_metrics(evaluation_uri):
        if record.slice_key.single_slice_keys:
            continue
        for item in record.metric_keys_and_values:
            if item.key.is_diff or not item.value.HasField("double_value"):
                continue
            found[item.key.model_name or CANDIDATE, item.key.name] = item.value.double_value.value
    return found


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
