"""What the Evaluator found, in words: each metric against its threshold, and why a model was not blessed."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow_model_analysis as tfma

from components.evaluation.config import Bounds, EvaluationConfig
from components.evaluation.eval_config import ALWAYS_MEASURED, BASELINE, CANDIDATE
from components.evaluation.metrics import METRICS
from preprocessing.outputs import SPAN

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
    """Rows that share values of some columns, as `hour 7, company Flash Cab`.

    values: metric -> value. baseline: the same of the last blessed model, if one was compared. newest: whether they are
    those of the newest span alone.
    """

    name: str
    examples: int
    values: Mapping[str, float]
    baseline: Mapping[str, float] = field(default_factory=dict)
    newest: bool = False


@dataclass(frozen=True)
class Verdict:
    """blessed, and if not: the reasons, one line each. examples: rows measured.

    newest, newest_examples: the same metrics on the newest span alone, and its rows; none where there are no spans.
    """

    blessed: bool
    reasons: tuple[str, ...]
    metrics: tuple[Measured, ...]
    examples: int
    newest: tuple[Measured, ...] = ()
    newest_examples: int = 0


def read_verdict(evaluation_uri: str, config: EvaluationConfig, *, blessed: bool) -> Verdict:
    """Returns the verdict recorded in an evaluation artifact."""
    values, newest = _overall(evaluation_uri)
    of_newest = {name: t.newest_span for name, t in config.thresholds.items() if t.newest_span is not None}
    measured = _measured(values, config, config.thresholds)
    measured_newest = _measured(newest, config, of_newest)
    reasons = [reason(m, config.thresholds[m.metric]) for m in measured if not m.held]
    reasons += [
        f"on the newest span {reason(m, of_newest[m.metric], '.newest_span')}" for m in measured_newest if not m.held
    ]
    examples, newest_examples = (int(found.get((CANDIDATE, ALWAYS_MEASURED), 0)) for found in (values, newest))
    if not blessed and not reasons:
        rows = "the newest span has no row in the eval split" if examples and of_newest else ""
        reasons = [rows or "the eval split has no labelled example"]
    return Verdict(blessed, () if blessed else tuple(reasons), measured, examples, measured_newest, newest_examples)


def _measured(
    values: Mapping[tuple[str, str], float], config: EvaluationConfig, thresholds: Mapping[str, Bounds]
) -> tuple[Measured, ...]:
    names = dict.fromkeys([*config.metrics, *config.thresholds])
    return tuple(measure(name, values, thresholds.get(name)) for name in names if (CANDIDATE, name) in values)


def read_slices(evaluation_uri: str, config: EvaluationConfig) -> tuple[Slice, ...]:
    """Returns the slices recorded in an evaluation artifact, those of most examples first."""
    names = dict.fromkeys([*config.metrics, *config.thresholds])
    slices = []
    for record in _records(evaluation_uri):
        keys = [key for key in record.slice_key.single_slice_keys if key.column != SPAN]
        if keys:
            found = _values(record)
            name = ", ".join(f"{key.column} {_slice_value(key)}" for key in keys)
            values, baseline = ({n: found[m, n] for n in names if (m, n) in found} for m in (CANDIDATE, BASELINE))
            examples = int(found.get((CANDIDATE, ALWAYS_MEASURED), 0))
            slices.append(Slice(name, examples, values, baseline, len(keys) < len(record.slice_key.single_slice_keys)))
    return tuple(sorted(slices, key=lambda one: (one.newest, -one.examples, one.name)))


def _slice_value(key: Any) -> str:
    kind = key.WhichOneof("kind")
    if kind == "bytes_value":
        return key.bytes_value.decode("utf-8", "replace")
    return f"{getattr(key, kind):g}" if kind else ""


def _overall(evaluation_uri: str) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Returns (model, metric) -> value, over all examples and over those of the newest span."""
    everything: dict[tuple[str, str], float] = {}
    newest: dict[tuple[str, str], float] = {}
    for record in _records(evaluation_uri):
        columns = [key.column for key in record.slice_key.single_slice_keys]
        if columns in ([], [SPAN]):
            (newest if columns else everything).update(_values(record))
    return everything, newest


def _records(evaluation_uri: str) -> Iterator[Any]:
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # TFMA reads with a deprecated function, and says so
    yield from tfma.load_metrics(evaluation_uri)


def _values(record: Any) -> dict[tuple[str, str], float]:
    return {
        (item.key.model_name or CANDIDATE, item.key.name): item.value.double_value.value
        for item in record.metric_keys_and_values
        if not item.key.is_diff and item.value.HasField("double_value")
    }


def measure(name: str, values: Mapping[tuple[str, str], float], threshold: Bounds | None) -> Measured:
    """Returns how a metric of the candidate stands against its threshold and the baseline."""
    value, baseline = values[CANDIDATE, name], values.get((BASELINE, name))
    if threshold is None:
        return Measured(name, value, baseline, "", True)
    return Measured(name, value, baseline, _required(threshold), _holds(name, value, baseline, threshold))


def _required(threshold: Bounds) -> str:
    parts = []
    if threshold.min is not None:
        parts.append(f">= {threshold.min:g}")
    if threshold.max is not None:
        parts.append(f"<= {threshold.max:g}")
    if threshold.not_worse_than is not None:
        parts.append("no worse than blessed" + (f" by over {threshold.tolerance:g}" if threshold.tolerance else ""))
    return ", ".join(parts)


def _holds(name: str, value: float, baseline: float | None, threshold: Bounds) -> bool:
    inside = (threshold.min is None or value >= threshold.min) and (threshold.max is None or value <= threshold.max)
    return inside and not _worse_than_blessed(name, value, baseline, threshold)


def _worse_than_blessed(name: str, value: float, baseline: float | None, threshold: Bounds) -> bool:
    if threshold.not_worse_than is None or baseline is None:
        return False
    loss = baseline - value if METRICS[name].higher_is_better else value - baseline
    return not loss <= threshold.tolerance


def reason(measured: Measured, threshold: Bounds, below: str = "") -> str:
    """Returns why a threshold that did not hold did not, with the YAML path of the limit.

    Args:
        measured: the metric.
        threshold: its bounds.
        below: where they stand below the threshold of the metric.
    """
    name, value, baseline = measured.metric, measured.value, measured.baseline
    if value != value:
        return f"{name} is not a number: the eval split holds one class only, or the model diverged"
    if threshold.min is not None and value < threshold.min:
        return f"{name} is {value:.4f}, below the minimum {threshold.min:g} (evaluation.thresholds.{name}{below}.min)"
    if threshold.max is not None and value > threshold.max:
        return f"{name} is {value:.4f}, above the maximum {threshold.max:g} (evaluation.thresholds.{name}{below}.max)"
    return f"{name} is {value:.4f}, the last blessed model has {baseline:.4f} on the same rows"
