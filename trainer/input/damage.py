"""Finds damage in TFRecord files, and names the file and the cause."""

import re
from collections.abc import Sequence
from contextlib import suppress

import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf.message import DecodeError

from fullpass.base.errors import UserError
from fullpass.preprocessing.columns.compute_at import raw_name
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID
from fullpass.trainer.input.decoder import Decode
from fullpass.trainer.input.placement import FeaturePlacement
from fullpass.trainer.records.record_files import BLOCK_ROWS, open_records, read_records

DAMAGE_ERRORS = (tf.errors.DataLossError, tf.errors.InvalidArgumentError)
"""The errors that TensorFlow raises when it reads or parses a damaged record."""
_OPERATION = re.compile(r"{{.*?}} | \[Op:.*", re.DOTALL)
"""The operation in a message of TensorFlow."""


def refuse_damage(files: Sequence[str], decode: Decode) -> None:
    """Raises UserError if a file cannot be read or parsed, and names the first one."""
    for file in files:
        try:
            for batch in read_records(tf.data.Dataset.from_tensors(file), 1, BLOCK_ROWS):
                decode(batch)
        except DAMAGE_ERRORS as error:
            raise UserError(
                f"{file} cannot be read: {_OPERATION.sub('', error.message)}. It is damaged, cut short or was written "
                "by another program. Delete the run that wrote it and run the pipeline again."
            ) from error


def check_features(files: Sequence[str], placement: FeaturePlacement, tft_output: tft.TFTransformOutput) -> None:
    """Raises UserError if the first record does not match the transform graph.

    Raw examples are not checked, because an absent column is a missing value.
    """
    if not placement.materialized:
        return
    held: set[str] | None = None
    with suppress(DecodeError, *DAMAGE_ERRORS):  # later reads report damage
        for first in open_records(tf.constant(files[0])).take(1).as_numpy_iterator():
            held = set(tf.train.Example.FromString(first).features.feature)
    if held is None:
        return
    transformed, columns = tft_output.transformed_feature_spec(), tft_output.raw_feature_spec()
    wanted = (*placement.stored, LABEL, EXAMPLE_WEIGHT)
    needed = {name for name in wanted if isinstance(transformed[name], tf.io.FixedLenFeature)}
    known = {*transformed, *map(raw_name, columns), LABEL, EXAMPLE_WEIGHT, ROW_ID}
    lacks, unknown = sorted(needed - held), sorted(held - known)
    problems = [f"lack {', '.join(lacks)}, which the transform graph computes"] if lacks else []
    problems += [f"contain {', '.join(unknown)}, which the transform graph does not contain"] if unknown else []
    if problems:
        raise UserError(
            f"{files[0]}: these examples {', and '.join(problems)}. Examples and graph come from different runs of "
            "Transform. Run Transform again: fullpass run FILE --from Transform --fresh."
        )
