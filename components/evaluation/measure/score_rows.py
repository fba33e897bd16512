"""Scores the records of files with exported models, each batch once, and accumulates the metrics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.components.accumulate import FileAccumulator
from fullpass.components.evaluation.measure.other_model import INTEGER, LabelOutput, OtherModel
from fullpass.components.evaluation.measure.scored_rows import Codes, Scored, ScoredRows
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.evaluation.measure.slice_states import SliceState
from fullpass.components.read_records import RecordReader
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, SPAN
from fullpass.trainer.export.export_files import LABELS, SERVING_DEFAULT
from fullpass.trainer.input.raw_examples import RawExamples
from fullpass.trainer.input.raw_tensors import DTYPES

_MODELS = 4
"""Models that a process keeps loaded: the new and the baseline model, or the versions of a day of a request log."""


@lru_cache(maxsize=_MODELS)
def loaded_model(folder: str) -> Any:
    """Returns the SavedModel in a folder. A process loads each of a few models once."""
    return tf.saved_model.load(folder)


class EvaluateFiles(FileAccumulator):
    """Scores files, and accumulates the metrics of their rows."""

    def __init__(
        self,
        accumulator: SliceAccumulator,
        exports: Sequence[str],
        columns: Mapping[str, str],
        rows: int,
        label: LabelOutput | None = None,
    ):
        self._accumulator, self._label = accumulator, label
        self.exports = tuple(exports)
        self._columns = tuple(columns.items())
        self._reader = RecordReader("evaluated", rows)

    @property
    def scorer(self) -> "Scorer":
        """The scorer of the models, which a process traces once."""
        return scorer_of(self.exports, self._columns, self._label)

    def start(self, constants: Any) -> None:
        """See base class: the scorer is made when it is needed."""

    def accumulate(self, path: str, groups: tuple[Any, ...]) -> Iterator[tuple[Any, SliceState]]:
        state = self._accumulator.start()
        for records in self._reader.batches(path):
            scored = self.scorer(tf.constant(records))
            state = self._accumulator.add(state, scored)
            state.sample = state.sample.with_rows(scored.row_ids, records)
        yield groups[0], state

    def merge(self, group: Any, states: Iterator[SliceState]) -> SliceState:
        return self._accumulator.merge(states)


class Scorer:
    """Scores raw rows with exported models.

    The labels and weights for a model come from its own function `labels`, because models may have different classes.

    Args:
        exports: Folders of SavedModels; the new model first.
        columns: Type of each raw column that slices use: `number`, `string`, or, of another ExampleGen, INTEGER.
        label: The label of models that another Trainer has exported.
    """

    def __init__(self, exports: Sequence[str], columns: Mapping[str, str], label: LabelOutput | None = None):
        self._models = [_model_of(export, label) for export in exports]
        dtypes = {**DTYPES, INTEGER: tf.int64}
        self._examples = RawExamples({name: dtypes[kind] for name, kind in columns.items()})
        self._graph = tf.function(
            self._score, autograph=False, input_signature=[tf.TensorSpec([None], tf.string, name="examples")]
        )

    def __call__(self, records: tf.Tensor) -> ScoredRows:
        """Returns the models' outputs for serialized examples. records: string [rows]."""
        rows, columns, models = tf.nest.map_structure(lambda tensor: tensor.numpy(), self._graph(records))
        return ScoredRows(
            row_ids=rows[ROW_ID].reshape(-1),
            spans=rows[SPAN].reshape(-1),
            columns={name: _codes(column, len(records)) for name, column in columns.items()},
            models=tuple(_scored(*model) for model in models),
        )

    def _score(self, examples: tf.Tensor) -> tuple:
        rows: dict[str, tf.Tensor] = {}
        models = []
        for model in self._models:
            if isinstance(model, OtherModel):
                transformed, outputs = model.rows(examples), model.scores(examples)
            else:
                transformed = getattr(model, LABELS)(examples)
                outputs = model.signatures[SERVING_DEFAULT](examples)
            others = {name: outputs[name] for name in ("quantiles", "levels") if name in outputs}
            if "classes" in outputs:
                others["classes"] = outputs["classes"][:1]
                if outputs["scores"].shape.rank == 1:
                    others["positive"] = outputs["prediction"] == outputs["classes"][:, 1]
            rows = rows or {name: transformed[name] for name in (ROW_ID, SPAN)}
            models.append((transformed[LABEL], transformed[EXAMPLE_WEIGHT], outputs["scores"], others))
        columns = {}
        for name, column in self._examples.tensors(examples).items():
            values = tf.cast(column.values, tf.float32) if column.dtype == tf.int64 else column.values
            distinct = tf.unique(values, out_idx=tf.int64)
            columns[name] = (column.indices[:, 0], distinct.idx, distinct.y)
        return rows, columns, models


@lru_cache(maxsize=_MODELS)
def scorer_of(
    exports: tuple[str, ...], columns: tuple[tuple[str, str], ...], label: LabelOutput | None = None
) -> Scorer:
    """Returns the scorer of some exports, which a process traces once. columns: type of each column of slices."""
    return Scorer(exports, dict(columns), label)


def _model_of(export: str, label: LabelOutput | None) -> Any:
    model = loaded_model(export)
    if hasattr(model, LABELS):
        return model
    if label is None:
        raise UserError(
            f"{export}: the model is of another Trainer, and tells no label. Give the Evaluator label=, the name of "
            "the label among the outputs of its signature transform_features."
        )
    return OtherModel(model, export, label)


def _codes(column: tuple[np.ndarray, np.ndarray, np.ndarray], rows: int) -> Codes:
    codes = np.full(rows, -1)
    codes[column[0]] = column[1]
    return Codes(codes, tuple(column[2].tolist()))


def _scored(labels: np.ndarray, weights: np.ndarray, scores: np.ndarray, others: Mapping[str, np.ndarray]) -> Scored:
    """Returns the arrays of one model; a last axis of length 1 is dropped.

    Args:
        others: The quantiles and their levels, both [rows, levels], if the model predicts quantiles; the names of the
            classes, [1, classes]; of a binary model, whether it predicts class 1, [rows].
    """
    labels, weights, scores = (x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else x for x in (labels, weights, scores))
    rows = Scored(labels.astype(np.float64), weights.reshape(-1).astype(np.float64), scores.astype(np.float64))
    if not len(labels):
        return rows
    if "classes" in others:
        names = tuple(name.decode("utf-8", "replace") for name in others["classes"][0].tolist())
        return replace(rows, classes=names, positive=others.get("positive"))
    if "quantiles" not in others:
        return rows
    # A level is a short decimal number, which float32 does not represent exactly.
    levels = np.round(others["levels"][0].astype(np.float64), 6)
    return replace(rows, quantiles=others["quantiles"].astype(np.float64), levels=tuple(levels.tolist()))
