"""Selects a few images of the eval split with the model's predictions, for the report."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.sampled_rows import SampledRows
from fullpass.trainer.models.tasks import probabilities_of
from fullpass.trainer.models.weight_semantics import Network

_MAX_IMAGES = 12
_SIDE = 96
_MAX_BYTES = 500_000


def show_images(network: Network, evaluation: SampledRows, task: Task, names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns images that the model classifies wrongly, the most confident first, and some that it classifies right.

    Returns:
        Per image: feature, png (base64), label, prediction, probability, right. At most 24 of each feature, half a
        megabyte in all.
    """
    images = [item for item in network.inputs.values() if item.output.kind == "image"]
    if not images or task not in ("binary", "multiclass") or not len(evaluation):
        return []
    probabilities = probabilities_of(task, tf.constant(evaluation.logits(network))).numpy()
    predicted, truth = probabilities.argmax(axis=1), evaluation.labels.astype(np.int64)
    sure = probabilities.max(axis=1)
    wrong = np.flatnonzero(predicted != truth)
    chosen = [*wrong[np.argsort(-sure[wrong])][:_MAX_IMAGES], *np.flatnonzero(predicted == truth)[:_MAX_IMAGES]]
    found: list[dict[str, Any]] = []
    for item in images:
        for row in chosen:
            shown = _png(evaluation.features[item.keras_input.name][row])
            if sum(len(one["png"]) for one in found) + len(shown) > _MAX_BYTES:
                return found
            about = {"label": names[truth[row]], "prediction": names[predicted[row]], "probability": float(sure[row])}
            found.append(
                {"feature": item.output.feature, "png": shown, **about, "right": bool(predicted[row] == truth[row])}
            )
    return found


def _png(pixels: np.ndarray) -> str:
    """Returns a picture, at most 96 pixels a side, as base64."""
    step = -(-max(pixels.shape[:2]) // _SIDE)
    return base64.b64encode(tf.io.encode_png(pixels[::step, ::step]).numpy()).decode("ascii")
