"""Checks the ids that functions of the user's own return; the ids of other features are right as built."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow_transform as tft

from fullpass.base.errors import UserError
from fullpass.preprocessing.columns.outputs import UNKNOWN_TOKENS
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.feature import CustomFeature
from fullpass.preprocessing.features.output import transformed_name


def id_sizes(config: PreprocessingConfig, graph: str) -> dict[str, int]:
    """Returns the number of ids of each output of the function in place of all transforms; empty without a function.

    Raises:
        UserError: Models do not support an output, or its range in the graph has ids below 0; or the range of a
            custom feature's ids is wider than its `ids`.
    """
    output = tft.TFTransformOutput(graph)
    if config.whole:
        return {}  # a module of TFX means by an id what it likes
    if config.function is None:
        _check_custom(config, output)
        return {}
    # The module imports Keras, which built-in features do not need here.
    from fullpass.trainer.models.model_inputs import transformed_outputs

    ids = [found.name for found in transformed_outputs(config, output) if found.kind == "ids"]
    return {name: output.num_buckets_for_transformed_feature(name) for name in ids}


def _check_custom(config: PreprocessingConfig, output: tft.TFTransformOutput) -> None:
    for name, feature in config.features.items():
        if not isinstance(feature, CustomFeature) or feature.ids is None:
            continue
        domain = output.transformed_domains()[transformed_name(name)]
        if domain.min < 0 or domain.max >= feature.ids:
            fix = UNKNOWN_TOKENS if domain.min < 0 else "Set `ids` to their number, or limit a vocabulary by top_k."
            raise UserError(
                f"features.{name}: {feature.function} returns ids from {domain.min:,} to {domain.max:,} by the "
                f"transform graph; `ids: {feature.ids}` accepts 0 to {feature.ids - 1:,}. {fix}"
            )


def check_ids(batch: pa.RecordBatch, sizes: Mapping[str, int]) -> None:
    """Checks ids against the range that the transform graph declares.

    Args:
        batch: A list of int64 ids per cell.

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
