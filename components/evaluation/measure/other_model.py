"""A model that another Trainer has exported, such as the `run_fn` of a template of TFX, and its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from fullpass.base.errors import UserError, did_you_mean
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, SPAN
from fullpass.trainer.export.export_files import SERVING_DEFAULT, TRANSFORM_FEATURES
from fullpass.trainer.records.record_files import record_batches

INTEGER = "integer"
"""Type of a column whose values another ExampleGen than Ingest has written as integers."""
_MOST_ROW_ID = 2**62
_LOOKED_AT = 1_000
"""Rows of which the first value of a column tells its type."""


def types_in(file: str, columns: Mapping[str, str]) -> dict[str, str]:
    """Returns the types of columns in a file of raw examples: the declared ones, or INTEGER."""
    found = dict(columns)
    for record in next(record_batches(file, rows=_LOOKED_AT), ()):
        features = tf.train.Example.FromString(record).features.feature
        found |= {name: INTEGER for name in columns if name in features and features[name].int64_list.value}
    return found


@dataclass(frozen=True)
class LabelOutput:
    """The label of a model that another Trainer has exported.

    Attributes:
        name: The label among the outputs of the signature `transform_features`, as `label_key` in TFMA's ModelSpec.
        logits: Whether the scores are logits, and not probabilities.
    """

    name: str
    logits: bool = False


class OtherModel:
    """Rows and scores of a model, in the form of an own export.

    Raises:
        UserError: The model lacks a signature, or its label is not among their outputs.
    """

    def __init__(self, model: Any, folder: str, label: LabelOutput):
        for name in (SERVING_DEFAULT, TRANSFORM_FEATURES):
            if name not in model.signatures:
                raise UserError(
                    f"{folder}: the model has no signature {name}, of serialized examples, from which the Evaluator "
                    f"takes {'scores' if name == SERVING_DEFAULT else 'labels'}. It has: {', '.join(model.signatures)}."
                )
        found = model.signatures[TRANSFORM_FEATURES].structured_outputs
        if label.name not in found:
            raise UserError(
                f"{folder}: the signature {TRANSFORM_FEATURES} has no output {label.name!r}."
                f"{did_you_mean(label.name, found)} Give label= one of {', '.join(sorted(found))}."
            )
        self._model, self._label = model, label

    def rows(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the labels of serialized examples, weight 1, and ids that tell rows apart: their digests."""
        label = self._model.signatures[TRANSFORM_FEATURES](examples)[self._label.name]
        if isinstance(label, tf.SparseTensor):
            label = tf.sparse.to_dense(label)
        rows = tf.size(examples)
        return {
            LABEL: tf.reshape(label, [rows]),
            EXAMPLE_WEIGHT: tf.ones([rows]),
            ROW_ID: tf.strings.to_hash_bucket_fast(examples, _MOST_ROW_ID),
            SPAN: tf.zeros([rows], tf.int64),
        }

    def scores(self, examples: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """Returns `scores` as probabilities, [rows] or [rows, classes], and the ids of the classes as their names.

        A single score of a row that is no class's is that of a regression, or of class 1.
        """
        outputs = self._model.signatures[SERVING_DEFAULT](examples)
        if len(outputs) != 1 and "scores" not in outputs:
            raise UserError(
                f"the signature {SERVING_DEFAULT} has the outputs {', '.join(sorted(outputs))}. The Evaluator reads a "
                "single one, or one named scores."
            )
        scores = tf.cast(outputs.get("scores", next(iter(outputs.values()))), tf.float32)
        width = scores.shape[-1] if scores.shape.rank == 2 else 1
        if width == 1:
            flat = tf.reshape(scores, [tf.size(examples)])
            return {"scores": tf.sigmoid(flat) if self._label.logits else flat}
        names = tf.constant([[str(number) for number in range(width)]])
        return {"scores": tf.nn.softmax(scores) if self._label.logits else scores, "classes": names}
