"""Exports that return a raw column as their score, so every metric is known exactly; with the YAML in their lineage."""

from pathlib import Path

import tensorflow as tf

from fullpass.base import state_file
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, SPAN
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID

YAML = """\
name: known
data: {source: {format: csv, path: rows.csv}, split: {method: hash, ratios: {train: 8, eval: 2}}}
label: {name: y, task: TASK}
features: {COLUMN: number, city: category}
evaluation: {metrics: [METRICS], slices: [[city]]}
"""


class ColumnModel(tf.Module):
    """A model whose score is a column. Its label is the column y; a row without it, or with one above 1, has weight 0.

    classes: Names of the two classes; None for a regression.
    """

    def __init__(self, column, classes):
        super().__init__()
        self._column, self._classes = column, classes

    def _read(self, examples, name, dtype=tf.float32, default=-1):
        spec = {name: tf.io.FixedLenFeature([1], dtype, default_value=[default])}
        return tf.io.parse_example(examples, spec)[name][:, 0]

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        scores = self._read(examples, self._column)
        if self._classes is None:
            return {"scores": scores}
        names = tf.constant(self._classes)
        prediction = tf.gather(names, tf.cast(scores > 0.5, tf.int32))
        return {
            "scores": scores,
            "prediction": prediction,
            "classes": tf.broadcast_to(names, [tf.size(scores), 2]),
        }

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def labels(self, examples):
        row = self._read(examples, RAW_ROW_ID, tf.int64)
        if self._classes is None:
            y = self._read(examples, "y")
        else:  # classes are tokens
            y = tf.strings.to_number(self._read(examples, "y", tf.string, "-1"))
        known = tf.cast(y >= 0 if self._classes is None else (y >= 0) & (y <= 1), tf.float32)
        return {LABEL: y, EXAMPLE_WEIGHT: known, ROW_ID: row, SPAN: tf.zeros_like(row)}


def export(
    folder: Path, column: str, *, classes=("0", "1"), task="binary", metrics="auc, log_loss, accuracy", edit=lambda y: y
) -> str:
    """Saves such a model with the YAML that it was trained by, and returns its folder."""
    model = ColumnModel(column, classes)
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.serve})
    yaml = edit(YAML.replace("TASK", task).replace("COLUMN", column).replace("METRICS", metrics))
    lineage = {"run": None, "config": {"hash": "0", "yaml": yaml}, "code": {}, "spans": [], "metrics": {"auc": 0.5}}
    lineage |= {"standard_errors": {"auc": 0.02}}
    (folder / "assets.extra").mkdir(exist_ok=True)
    state_file.write(folder / "assets.extra" / "fullpass.json", {"lineage": lineage})
    return str(folder)
