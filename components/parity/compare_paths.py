"""Computes features and predictions of eval rows by every path of training and serving, and compares them."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from tfx import types

from fullpass.base.errors import UserError
from fullpass.base.progress import report as progress
from fullpass.components.ingest.component import by_span, rows_of_split
from fullpass.components.ingest.writing.manifest import Manifest, read_manifest
from fullpass.components.internals.tfx_internals import path_utils
from fullpass.components.parity.compare import (
    ComparedFeature,
    ParityComparison,
    RowName,
    Tolerance,
    compare_rows,
    same_width,
)
from fullpass.components.transform.component import split_files
from fullpass.preprocessing.columns.column_keys import column_keys
from fullpass.preprocessing.columns.outputs import LABEL, ROW_ID, SPAN
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, RawColumn, request_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.export.eval_scores import SCORES_FILE, read_scores
from fullpass.trainer.export.export_files import SERVING_DEFAULT, SERVING_RAW, TRANSFORM_FEATURES
from fullpass.trainer.input.decoder import decoder
from fullpass.trainer.input.placement import InModel, placement_of
from fullpass.trainer.input.raw_examples import dense_columns
from fullpass.trainer.input.trained_rows import read_trained_rows
from fullpass.trainer.models.model_inputs import transformed_outputs
from fullpass.trainer.records.blocks import Block, without_gaps
from fullpass.trainer.records.record_files import record_batches as read_file

SPLIT = "eval"
_PROBED_ROWS = 64
"""Number of rows from which the batch size is estimated."""
MOST_ROWS = 16_384
"""Rows of a batch at most."""
BATCH_BYTES = 64 << 20
"""Approximate size of a batch in one path, serialized plus decoded."""

Features = dict[str, np.ndarray]
_Outputs = tuple[Features, Callable[[], Features]]
"""The outputs of a signature, and a function that computes them a second time."""


def compare_paths(
    config: PreprocessingConfig,
    tolerance: Tolerance,
    limit: int | None,
    *,
    examples: Sequence[types.Artifact],
    ready: Sequence[types.Artifact],
    transform_graph: types.Artifact,
    model: types.Artifact,
    model_run: types.Artifact,
) -> tuple[list[ComparedFeature], int]:
    """Compares batch by batch, and stops after the batch in which a feature has as many mismatches as are shown.

    Args:
        ready: Transformed examples that training read.
        model_run: Artifact with the trained model's scores of the first rows.

    Returns:
        The comparisons, and the number of rows.

    Raises:
        UserError: The Trainer scored none of the rows.
    """
    examples = by_span(examples)
    files = split_files(examples, SPLIT)
    total = min(rows_of_split(examples, SPLIT), limit or sys.maxsize) or None
    export = tf.saved_model.load(path_utils.serving_model_path(model.uri))
    first = next(example_batches(files, _PROBED_ROWS))
    decoded = through(export.signatures[TRANSFORM_FEATURES], first)
    batch_rows = rows_of_batch(first, decoded)
    classes = decoded[LABEL].shape[1] if decoded[LABEL].ndim == 2 else 0  # of a multilabel label
    trained = TrainedRows(_training_blocks(config, ready, transform_graph, classes, batch_rows))
    manifests = [read_manifest(artifact.uri) for artifact in examples]
    scores = _Scores(f"{model_run.uri}/{SCORES_FILE}")
    columns = request_columns(config)
    least = 0.0 if config.label.task == "regression" else 1.0  # the scores are probabilities
    comparison, rows = ParityComparison(), 0
    with ThreadPoolExecutor(2) as threads:
        for records in example_batches(in_order_of(trained, files), batch_rows, limit):
            progress(rows, total, "rows", "compared")
            # The features are compared while these two signatures run, because TensorFlow releases the GIL.
            serve = partial(through, export.signatures[SERVING_DEFAULT], records)
            serve_raw = partial(through_raw, export.signatures[SERVING_RAW], records, columns)
            served, served_raw = threads.submit(serve), threads.submit(serve_raw)
            transformed = partial(_transformed, export, records)
            exported = transformed()
            row_ids = exported[ROW_ID]
            name = partial(_row_name, manifests, row_ids)
            same = partial(compare_rows, row_name=name, tolerance=tolerance, before=comparison)
            features = same(trained.take(row_ids), exported, pair="training input = export", again=transformed)
            sides = (served.result(), serve), (served_raw.result(), serve_raw)
            predictions = _compare_predictions(*sides, least, *scores.of(row_ids), name, same)
            comparison.add([*features, *predictions])
            rows += len(records)
            if comparison.is_decided:
                break
    if not (scores.compared or comparison.is_decided):
        raise UserError("parity: none of the rows that the Trainer scored is among the eval rows compared.")
    return comparison.compared, rows


def _transformed(export: tf.Module, records: tf.Tensor) -> Features:
    features = through(export.signatures[TRANSFORM_FEATURES], records)
    features.pop(SPAN)  # identifies rows; it is no feature
    return features


def _training_blocks(
    config: PreprocessingConfig,
    ready: Sequence[types.Artifact],
    transform_graph: types.Artifact,
    classes: int,
    batch_rows: int,
) -> Iterator[Block]:
    """Returns the model inputs of training, in the order of the files."""
    tft_output = tft.TFTransformOutput(transform_graph.uri)
    placement = placement_of(config, transformed_outputs(config, tft_output))
    decode = decoder(tft_output, placement, [*placement.read, ROW_ID], classes)
    blocks = read_trained_rows(split_files(by_span(ready), SPLIT), decode, batch_rows)
    return map(InModel(placement, tft_output).add_model_features, blocks) if placement.in_model else blocks


def _compare_predictions(
    served: _Outputs,
    served_raw: _Outputs,
    least: float,
    trained: Features,
    rows: np.ndarray,
    row_name: RowName,
    same: Callable[..., list[ComparedFeature]],
) -> list[ComparedFeature]:
    """Compares the predictions of two signatures of the export with each other, and with those of the trained model.

    Args:
        least: Lower bound of the standard deviation in the tolerance.
        trained: Outputs of the trained model for some rows of the batch.
    """
    pair = f"{SERVING_DEFAULT} = {SERVING_RAW}"
    (outputs, again), (outputs_raw, again_raw) = served, served_raw
    agreed = same(outputs, outputs_raw, pair=pair, again=again_raw, least_deviation=least)
    if not len(rows):
        return agreed

    def scores(of: Features) -> Features:
        return {"scores": of["scores"][rows]}

    compared = same(
        trained,
        scores(outputs),
        pair="trained model = export",
        row_name=lambda index: row_name(int(rows[index])),
        again=lambda: scores(again()),
        least_deviation=least,
    )
    return [*compared, *agreed]


class _Scores:
    """The trained model's scores of the first eval rows. compared: number of scores returned so far."""

    def __init__(self, path: str):
        scored = read_scores(path)
        order = np.argsort(scored["row_id"])
        self._row_ids, self._scores = scored["row_id"][order], scored["scores"][order]
        self.compared = 0

    def of(self, row_ids: np.ndarray) -> tuple[Features, np.ndarray]:
        """Returns the scores of the rows that have a score, and the indices of these rows."""
        rows = np.flatnonzero(np.isin(row_ids, self._row_ids))
        self.compared += len(rows)
        return {"scores": self._scores[np.searchsorted(self._row_ids, row_ids[rows])]}, rows


def _row_name(manifests: Sequence[Manifest], row_ids: np.ndarray, index: int) -> str:
    """Returns the file and the number of a row of a batch; called only for rows that differ."""
    row = int(row_ids[index])
    return next(manifest for manifest in manifests if manifest.holds(row)).locate(row)


def rows_of_batch(records: tf.Tensor, decoded: Features) -> int:
    """Returns the number of rows of a batch, given sample rows.

    Args:
        records: Serialized sample examples, string [rows].
        decoded: The same examples, decoded.
    """
    serialized = int(tf.reduce_sum(tf.strings.length(records)))
    row_bytes = (serialized + sum(value.nbytes for value in decoded.values())) / len(records)
    return int(np.clip(BATCH_BYTES / row_bytes, 1, MOST_ROWS))


def example_batches(files: Iterable[str], rows: int, limit: int | None = None) -> Iterator[tf.Tensor]:
    """Yields the first `limit`, or all, serialized examples of TFRecord files, string [at most rows]."""
    left = limit
    for file in files:
        for batch in read_file(file, rows=rows):
            yield tf.constant(batch[:left])
            if left is not None:
                left -= min(left, len(batch))
                if not left:
                    return


def in_order_of(trained: "TrainedRows", files: Sequence[str]) -> Iterator[str]:
    """Yields raw files in the order of their rows in training.

    Transform keeps the rows of a file together and in order, but may change the order of files. The next file is the
    one whose first row is the next row of training, so neither side has to buffer rows of the other.
    """
    by_first_row = {}
    for file in files:
        for first in next(read_file(file, rows=1), []):
            parsed = tf.io.parse_single_example(first, {RAW_ROW_ID: tf.io.FixedLenFeature([], tf.int64)})
            by_first_row[int(parsed[RAW_ROW_ID])] = file
    while by_first_row:
        row = trained.next_row()
        yield by_first_row.pop(row if row in by_first_row else next(iter(by_first_row)))


def through(function: Callable[..., Mapping[str, tf.Tensor]], records: tf.Tensor) -> Features:
    """Returns the outputs of a signature for serialized examples, string [rows]."""
    # A keyword: with a positional argument, TensorFlow first tries another form and formats all records into an error.
    return _numpy(function(examples=records))


def through_raw(
    function: Callable[..., Mapping[str, tf.Tensor]], records: tf.Tensor, columns: Mapping[str, RawColumn]
) -> Features:
    """Returns the outputs of `serving_raw` for the raw columns of `records`, which is the path of a JSON request."""
    keys, dense = column_keys(tuple(columns)), dense_columns(records, columns)
    return _numpy(function(**{keys[name]: value for name, value in dense.items()}))


@dataclass
class _Held:
    """A block with rows that are not taken yet. left: bool [rows], True for these rows."""

    rows: Features
    left: np.ndarray


class TrainedRows:
    """The model inputs of training, taken by row id in any order.

    A block stays in memory from its reading until its last row is taken. If rows are taken in the order of the blocks,
    these are one or two blocks.

    Attributes:
        held: The blocks in memory.
    """

    def __init__(self, blocks: Iterator[Block]):
        self._blocks = blocks
        self.held: list[_Held] = []
        self._none: Features = {}

    def next_row(self) -> int | None:
        """Returns the id of the first row that is not taken yet; None if all rows are taken."""
        if not self.held and not self._read():
            return None
        first = self.held[0]
        return int(first.rows[ROW_ID][first.left.argmax()])

    def take(self, row_ids: np.ndarray) -> Features:
        """Returns the rows with the given ids, in this order; ids without a row are skipped."""
        masks = [self._among(held, row_ids) for held in self.held]
        while sum(map(np.count_nonzero, masks)) < len(row_ids) and self._read():
            masks.append(self._among(self.held[-1], row_ids))
        parts = [self._none]
        for held, chosen in zip(self.held, masks, strict=True):
            parts.append({name: value[chosen] for name, value in held.rows.items()})
            held.left &= ~chosen
        self.held = [held for held in self.held if held.left.any()]
        rows = _join(parts)
        by_id = np.argsort(rows[ROW_ID])
        present = row_ids[np.isin(row_ids, rows[ROW_ID])]
        order = by_id[np.searchsorted(rows[ROW_ID], present, sorter=by_id)]
        return {name: value[order] for name, value in rows.items()}

    @staticmethod
    def _among(held: _Held, row_ids: np.ndarray) -> np.ndarray:
        return held.left & np.isin(held.rows[ROW_ID], row_ids)

    def _read(self) -> bool:
        """Reads one more block into memory; returns whether there was one."""
        for block in self._blocks:
            rows = _numpy({name: without_gaps(value) for name, value in block.items()})
            self._none = {name: value[:0] for name, value in rows.items()}
            if len(rows[ROW_ID]):
                self.held.append(_Held(rows, np.ones(len(rows[ROW_ID]), dtype=bool)))
                return True
        return False


def _numpy(features: Mapping[str, tf.Tensor | tf.RaggedTensor]) -> Features:
    return {
        name: (value.to_tensor() if isinstance(value, tf.RaggedTensor) else value).numpy()
        for name, value in features.items()
    }


def _join(parts: Sequence[Features]) -> Features:
    joined = {name: [part[name] for part in parts] for name in parts[0]}
    return {name: np.concatenate(same_width(*of) if of[0].ndim > 1 else of) for name, of in joined.items()}
