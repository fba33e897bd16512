"""Stores the scores of the trained model for eval rows, so that Parity can compare the export with them.

The export computes its scores from raw rows with its own graph. The stored scores come from the network in memory,
applied to the rows of the input function. Parity compares the two row by row.
"""

import io
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.columns.outputs import ROW_ID
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.input.decoder import Decode, block_rows
from fullpass.trainer.input.epochs import to_batch
from fullpass.trainer.input.placement import InModel, with_model_features
from fullpass.trainer.input.trained_rows import read_trained_rows
from fullpass.trainer.models.tasks import probabilities_of
from fullpass.trainer.models.weight_semantics import Network

SCORES_FILE = "eval_scores.npz"
"""File in the model run: `row_id` int64 [rows] and `scores`, as in the export, of the first rows of the eval split."""
SCORED_ROWS = 10_000
"""Eval rows that are scored, rounded up to a block, for Parity to compare with the export: a bound of its time."""
_BLOCK_BYTES = 32 << 20
"""Bytes of the rows that are scored in one call at most, which bounds the memory of wide rows."""


def write_scores(
    path: str,
    network: Network,
    in_model: InModel | None,
    files: Sequence[str],
    decode: Decode,
    *,
    row_bytes: int = 1,
) -> None:
    """Scores the first rows of the eval split and writes the file atomically.

    Args:
        in_model: Computes the features of the network that the rows do not have; None without any.
        row_bytes: The most bytes of a row.
    """
    row_ids, scores = [], []
    rows = max(1, min(block_rows(decode), _BLOCK_BYTES // row_bytes))
    for block in read_trained_rows(files, decode, rows):
        features, _, _ = to_batch({name: value for name, value in block.items() if name != ROW_ID})
        row_ids.append(block[ROW_ID].numpy())
        logits = network.logits(with_model_features(features, in_model))
        scores.append(scores_of(network.config.label.task, logits).numpy())
        if sum(map(len, row_ids)) >= SCORED_ROWS:
            break
    archive = io.BytesIO()  # archives are written out of order, remote files cannot be
    np.savez(archive, row_id=np.concatenate(row_ids), scores=np.concatenate(scores))
    pending = f"{path}.tmp"
    with tf.io.gfile.GFile(pending, "wb") as file:
        file.write(archive.getvalue())
    tf.io.gfile.rename(pending, path, overwrite=True)


def read_scores(path: str) -> dict[str, np.ndarray]:
    """Returns `row_id` and `scores` as written."""
    with tf.io.gfile.GFile(path, "rb") as file, np.load(io.BytesIO(file.read())) as arrays:
        return dict(arrays)


def scores_of(task: Task, logits: tf.Tensor) -> tf.Tensor:
    """Returns the `scores` of the export's signatures."""
    if task == "regression":
        return logits[:, 0]
    probabilities = probabilities_of(task, logits)
    return probabilities[:, 1] if task == "binary" else probabilities
