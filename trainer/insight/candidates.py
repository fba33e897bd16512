"""Measures the models that were tried, each alone and blended, on the same eval rows: the leaderboard of a training."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from fullpass.trainer.config import TrainingSpec
from fullpass.trainer.fit.blend import Choice, blended
from fullpass.trainer.fit.epoch_metrics import metrics_of_rows
from fullpass.trainer.fit.sampled_rows import SampledRows, rows_to_sample, sample_rows
from fullpass.trainer.fit.training_data import TrainingData
from fullpass.trainer.insight.insight import EVAL_ROWS
from fullpass.trainer.loss_config import levels_of
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.weight_semantics import Network

_TIMED_ROWS = 1000


def measure_candidates(
    tried: Mapping[str, tuple[Network, float]],
    compared: Mapping[str, float],
    choice: Choice | None,
    data: TrainingData,
    spec: TrainingSpec,
) -> list[dict[str, Any]]:
    """Returns the entry `candidates` of training.json: the models that were tried, then their blend if it was weighed.

    They are measured as they were compared: before calibration, and before trees learn from the validation rows too.

    Args:
        tried: Kind of model -> its network and the seconds of its training.
        compared: Kind of model -> its monitored metric on the validation rows.
        choice: The weights of the blend.

    Returns:
        Of each: kind; weight in the blend; validation; eval, a metric -> its value on up to 10,000 eval rows;
        train_seconds; predict_ms, the milliseconds of 1,000 rows in this process. Of the blend, training and prediction
        take as long as those of its models together, and its validation is null, since the validation rows chose its
        weights.
    """
    if not tried:
        return []
    task, loss = spec.preprocessing.label.task, spec.config.training.loss
    fewest = min(rows_to_sample(network, EVAL_ROWS) for network, _ in tried.values())
    rows = sample_rows(data.evaluation.split, data.in_model, fewest)
    measure = loss_of(task, loss, label_deviation=data.train.counts.error_unit)

    def measured(output: np.ndarray) -> dict[str, float]:
        return metrics_of_rows(task, measure, rows.labels, output, rows.weights, levels_of(loss))

    weights = choice.weights if choice else {}
    found: list[dict[str, Any]] = []
    outputs: dict[str, np.ndarray] = {}
    for kind, (network, seconds) in tried.items():
        outputs[kind] = rows.logits(network)
        facts: dict[str, Any] = {"kind": kind, "weight": weights.get(kind), "validation": compared[kind]}
        facts |= {"eval": measured(outputs[kind]), "train_seconds": round(seconds, 3)}
        found.append(facts | {"predict_ms": round(_milliseconds(rows.first(_TIMED_ROWS), network), 3)})
    if choice is None:
        return found
    parts = [one for one in found if one["weight"]]
    output = blended([outputs[one["kind"]] for one in parts], [one["weight"] for one in parts], loss)
    spent = {name: round(sum(one[name] for one in parts), 3) for name in ("train_seconds", "predict_ms")}
    return [*found, {"kind": "blend", "weight": None, "validation": None, "eval": measured(output), **spent}]


def _milliseconds(rows: SampledRows, network: Network) -> float:
    """Returns the milliseconds of 1,000 rows; the first prediction of a batch of this size is not timed."""
    rows.logits(network)
    began = time.monotonic()
    rows.logits(network)
    return 1000 * (time.monotonic() - began) * _TIMED_ROWS / len(rows)
