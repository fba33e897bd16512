"""Computes features and predictions of eval rows by every path of training and serving, and compares them."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from tfx import types

from fullpass.base.errors import UserError
from fullpass.base.progress import report as progress
from fullpass.components.ingest.component import by_span, rows_of
from fullpass.components.ingest.writing.manifest import Manifest, read_manifest
from fullpass.components.internals.tfx_internals import path_utils
from fullpass.components.parity.compare import ComparedFeature, Comparison, Tolerance, compare
from fullpass.components.parity.stream_rows import (
    Features,
    TrainedRows,
    in_order_of,
    record_batches,
    rows_of_batch,
    through,
    through_raw,
)
from fullpass.components.transform.component import split_files
from fullpass.preprocessing.columns.outputs import LABEL, ROW_ID, SPAN
from fullpass.preprocessing.columns.raw_columns import serving_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.export.eval_scores import SCORES_FILE, read_scores
from fullpass.trainer.export.export_files import SERVING_DEFAULT, SERVING_RAW, TRANSFORM_FEATURES
from fullpass.trainer.input.decoder import decoder, read_blocks
from fullpass.trainer.input.placement import InModel, placement_of
from fullpass.trainer.models.model_inputs import transformed_outputs
from fullpass.trainer.records.blocks import Block

SPLIT = "eval"
_PROBED_ROWS = 64
"""Number of rows from which the batch size is estimated."""


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
        limit: Largest number of rows to compare; None for all.
        ready: Transformed examples that training read.
        model_run: Artifact with the trained model's scores of the first rows.

    Returns:
        The comparisons, and the number of rows.

    Raises:
        UserError: The Trainer scored none of the rows.
    """
    examples = by_span(examples)
    files = split_files(examples, SPLIT)
    total = min(rows_of(examples, SPLIT), limit or sys.maxsize) or None
    export = tf.saved_model.load(path_utils.serving_model_path(model.uri))
    first = next(record_batches(files, _PROBED_ROWS))
    decoded = through(export.signatures[TRANSFORM_FEATURES], first)
    batch_rows = rows_of_batch(first, decoded)
    trained = TrainedRows(_training_blocks(config, ready, transform_graph, _classes(decoded), batch_rows))
    manifests = [read_manifest(artifact.uri) for artifact in examples]
    scores = _Scores(f"{model_run.uri}/{SCORES_FILE}")
    columns = serving_columns(config)
    least = 0.0 if config.label.task == "regression" else 1.0  # the scores are probabilities
    comparison, rows = Comparison(), 0
    with ThreadPoolExecutor(2) as threads:
        for records in record_batches(in_order_of(trained, files), batch_rows, limit):
            progress(rows, total, "rows", "compared")
            # The features are compared while these two signatures run, because TensorFlow releases the GIL.
            served = _PendingOutputs(partial(through, export.signatures[SERVING_DEFAULT], records), threads)
            served_raw = _PendingOutputs(
                partial(through_raw, export.signatures[SERVING_RAW], records, columns), threads
            )
            transformed = partial(_transformed, export, records)
            exported = transformed()
            row_ids = exported[ROW_ID]
            names = _RowNames(manifests, row_ids)
            same = partial(compare, row_names=names, tolerance=tolerance, before=comparison)
            features = same(trained.take(row_ids), exported, pair="training input = export", again=transformed)
            predictions = _compare_predictions(served, served_raw, least, *scores.of(row_ids), names, same)
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


def _classes(decoded: Features) -> int:
    """Returns the number of classes of a multilabel label; 0 for any other label."""
    return decoded[LABEL].shape[1] if decoded[LABEL].ndim == 2 else 0


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
    blocks = iter(read_blocks(split_files(by_span(ready), SPLIT), decode, readers=1, rows=batch_rows))
    return map(InModel(placement, tft_output).add_model_features, blocks) if placement.in_model else blocks


class _PendingOutputs:
    """The predictions of a batch by one signature, computed in a thread.

    Attributes:
        again: Computes the predictions a second time.
    """

    def __init__(self, again: Callable[[], Features], threads: ThreadPoolExecutor):
        self.again = again
        self._future = threads.submit(again)

    @property
    def outputs(self) -> Features:
        """The predictions; waits until they are computed."""
        return self._future.result()


def _compare_predictions(
    served: _PendingOutputs,
    served_raw: _PendingOutputs,
    least: float,
    trained: Features,
    rows: np.ndarray,
    row_names: "_RowNames",
    same: Callable[..., list[ComparedFeature]],
) -> list[ComparedFeature]:
    """Compares the predictions of two signatures of the export with each other, and with those of the trained model.

    Args:
        least: Lower bound of the standard deviation in the tolerance.
        trained: Outputs of the trained model for some rows of the batch.
    """
    pair = f"{SERVING_DEFAULT} = {SERVING_RAW}"
    agreed = same(served.outputs, served_raw.outputs, pair=pair, again=served_raw.again, least_deviation=least)
    if not len(rows):
        return agreed

    def scores(outputs: Features) -> Features:
        return {"scores": outputs["scores"][rows]}

    compared = same(
        trained,
        scores(served.outputs),
        pair="trained model = export",
        row_names=row_names.among(rows),
        again=lambda: scores(served.again()),
        least_deviation=least,
    )
    return [*compared, *agreed]


class _Scores:
    """The trained model's scores of the first eval rows.

    Attributes:
        compared: Number of scores returned so far.
    """

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


class _RowNames:
    """File and row number of each row of a batch; looked up only for rows that differ."""

    def __init__(self, manifests: Sequence[Manifest], row_ids: np.ndarray):
        self._manifests = manifests
        self._row_ids = row_ids

    def __getitem__(self, index: int, /) -> str:
        row = int(self._row_ids[index])
        return next(manifest for manifest in self._manifests if manifest.holds(row)).locate(row)

    def among(self, indices: np.ndarray) -> "_RowNames":
        """Returns the names of some of the rows."""
        return _RowNames(self._manifests, self._row_ids[indices])
