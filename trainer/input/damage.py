"""Finds damage in TFRecord files: names the record, its byte and the cause.

TensorFlow reads the files. Only if that fails does this module read them record by record.
"""

import gzip
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import IO, BinaryIO, cast

import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf.message import DecodeError

from fullpass.base.errors import UserError
from fullpass.preprocessing.columns.compute_at import raw_name
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID
from fullpass.trainer.input.decoder import Decode
from fullpass.trainer.input.placement import FeaturePlacement
from fullpass.trainer.records.frames import FrameError, read_frames
from fullpass.trainer.records.record_files import BLOCK_ROWS, read_records

DAMAGE_ERRORS = (tf.errors.DataLossError, tf.errors.InvalidArgumentError)
"""The errors that TensorFlow raises when it reads or parses a damaged record."""


def refuse_damage(files: Sequence[str], decode: Decode) -> None:
    """Raises UserError if a record cannot be read or parsed, and names the first one."""
    for file in files:
        damage = _first_damage(file, decode) if _fails(file, decode) else None
        if damage is not None:
            raise UserError(
                f"{damage}. The file is damaged, cut short or was written by another program. Delete the run that "
                "wrote it and run the pipeline again."
            )


def check_features(files: Sequence[str], placement: FeaturePlacement, tft_output: tft.TFTransformOutput) -> None:
    """Raises UserError if the first record does not match the transform graph.

    Raw examples are not checked, because an absent column is a missing value.
    """
    if not placement.materialized:
        return
    first = _first_record(files[0])
    try:
        held = set(tf.train.Example.FromString(first).features.feature) if first is not None else None
    except DecodeError:  # later reads report damage
        return
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


def _first_record(file: str) -> bytes | None:
    """Returns the first record of a file; None if there is none, or if it cannot be read."""
    with tf.io.gfile.GFile(file, "rb") as stored, suppress(FrameError):
        return next((record for _, record in _frames(stored, file)), None)
    return None


def _fails(file: str, decode: Decode) -> bool:
    try:
        for batch in read_records(tf.data.Dataset.from_tensors(file), 1, BLOCK_ROWS):
            decode(batch)
    except DAMAGE_ERRORS:
        return True
    return False


def _first_damage(file: str, decode: Decode) -> str | None:
    """Returns the first record of a file that cannot be read or parsed, with its byte and the cause."""
    before, cut = 0, None
    with tf.io.gfile.GFile(file, "rb") as stored:
        frames = _frames(stored, file)
        while cut is None:
            block: list[tuple[int, bytes]] = []
            try:
                for frame in islice(frames, BLOCK_ROWS):
                    block.append(frame)
            except FrameError as error:
                cut = error
            if _unparsable([record for _, record in block], decode):
                for number, (offset, record) in enumerate(block, start=before + 1):
                    if cause := _unparsable([record], decode):
                        return f"{file}: record {number} cannot be read, at byte {offset:,}: {cause}"
            before += len(block)
            if not block and cut is None:
                return None
    return f"{file}: record {before + 1} cannot be read, at byte {cut.offset:,}: {cut.cause}"


def _frames(stored: BinaryIO, file: str) -> Iterator[tuple[int, bytes]]:
    return read_frames(cast(IO[bytes], gzip.GzipFile(fileobj=stored)) if file.endswith(".gz") else stored)


def _unparsable(records: Sequence[bytes], decode: Decode) -> str:
    """Returns why records cannot be parsed; "" if they can."""
    try:
        decode(tf.constant(records, tf.string))
    except tf.errors.InvalidArgumentError as error:
        return f"it is not an example with the expected features ({error.message.splitlines()[0]})"
    return ""
