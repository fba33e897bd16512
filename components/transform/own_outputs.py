"""Checks the ids that a user-defined function in place of all transforms returns; built-in ids are right as built."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow_transform as tft

from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.errors import UserError


def id_sizes(config: PreprocessingConfig, graph: str) -> dict[str, int]:
    """Returns the number of ids of each output that holds ids; an empty dict without a function of the user's.

    Args:
        config: features and label.
        graph: folder of the transform graph.

    Raises:
        UserError: Models do not support an output, or its range in the graph has ids below 0.
    """
    if config.function is None:
        return {}
    # The module imports Keras, which built-in features do not need here.
    from fullpass.trainer.models.model_inputs import transformed_outputs

    output = tft.TFTransformOutput(graph)
    ids = [found.name for found in transformed_outputs(config, output) if found.kind == "ids"]
    return {name: output.num_buckets_for_transformed_feature(name) for name in ids}


def check_ids(batch: pa.RecordBatch, sizes: Mapping[str, int]) -> None:
    """Checks ids against the range that the transform graph declares.

    Args:
        batch: a list of int64 ids per cell.
        sizes: the number of ids of each output, from `id_sizes`.

    Raises:
        UserError: An id is outside 0 .. size - 1.
    """
    for name, size in sizes.items():
        cells = batch.column(batch.schema.get_field_index(name))
        ids = cells.flatten().to_numpy()
        outside = (ids < 0) | (ids >= size)
        if outside.any():
            rows = np.unique(pc.list_parent_indices(cells).to_numpy()[outside]).size
            raise UserError(
                f"transformed feature {name!r}, computed by `preprocessing`, has id {ids[outside][0]} in {rows:,} of "
                f"{batch.num_rows:,} rows read together; the transform graph declares ids from 0 to {size - 1:,}. "
                "Return only ids of this range, with an id of their own for unknown and missing values, or declare "
                "the true range."
            )
