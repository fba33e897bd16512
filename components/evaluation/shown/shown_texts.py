"""Selects a few texts of the eval split with the model's predictions; wrongly predicted texts come first."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from fullpass.components.evaluation.measure.score_rows import loaded_model
from fullpass.components.evaluation.shown.shown_files import ShownText
from fullpass.components.pages.charts import short_label
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.id_features import TextFeature
from fullpass.trainer.export.export_files import LABELS, SERVING_DEFAULT

_MOST, _ROWS = 8, 400
"""Numbers of wrong and of right texts on the page, and of rows among which the surest are chosen."""
_LONGEST = 300
"""Characters of a text: about four lines of the page."""


def texts_of_export(export: str, sampled: Sequence[bytes], config: PreprocessingConfig) -> tuple[ShownText, ...]:
    """Returns texts with wrong predictions, the most confident first, and some texts with right predictions.

    Args:
        sampled: A sample of the serialized eval rows, in random order.
        config: Features and label. Only binary and multiclass tasks have texts to show.
    """
    features = {
        name: feature.column or name for name, feature in config.features.items() if isinstance(feature, TextFeature)
    }
    records = list(sampled[:_ROWS]) if features and config.label.task in ("binary", "multiclass") else []
    if not records:
        return ()
    model, examples = loaded_model(export), tf.constant(records)
    transformed = getattr(model, LABELS)(examples)
    truth = {name: transformed[name].numpy().reshape(len(records)) for name in (LABEL, EXAMPLE_WEIGHT)}
    outputs = {name: value.numpy() for name, value in model.signatures[SERVING_DEFAULT](examples=examples).items()}
    names = [name.decode("utf-8", "replace") for name in outputs["classes"][0]]
    predictions = [name.decode("utf-8", "replace") for name in outputs["prediction"].reshape(len(records))]
    sure = _probabilities(outputs["scores"], predictions, names)
    labels = [names[int(label)] if np.isfinite(label) else "" for label in truth[LABEL]]
    wrong = np.array([label != prediction for label, prediction in zip(labels, predictions, strict=True)])
    usable = truth[EXAMPLE_WEIGHT] > 0
    surest = np.argsort(-sure, kind="stable")
    chosen = [*surest[(wrong & usable)[surest]][:_MOST], *np.flatnonzero(~wrong & usable)[:_MOST]]
    texts = _texts([records[row] for row in chosen], features)
    return tuple(
        ShownText(text, labels[row], predictions[row], float(sure[row]))
        for row, text in zip(chosen, texts, strict=True)
    )


def _probabilities(scores: np.ndarray, predictions: Sequence[str], names: Sequence[str]) -> np.ndarray:
    scores = scores.reshape(len(predictions), -1).astype(np.float64)
    if scores.shape[1] > 1:
        return scores.max(axis=1)
    positive = np.array([prediction == names[-1] for prediction in predictions])
    return np.where(positive, scores[:, 0], 1.0 - scores[:, 0])


def _texts(records: Sequence[bytes], features: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns the text of each feature in each record, by the name of the feature; elements of a list are joined."""
    shown = []
    for record in records:
        cells = tf.train.Example.FromString(record).features.feature
        texts = {
            name: " | ".join(part.decode("utf-8", "replace") for part in cells[column].bytes_list.value)
            for name, column in features.items()
        }
        shown.append({name: short_label(text, _LONGEST) for name, text in texts.items()})
    return shown
