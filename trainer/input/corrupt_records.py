"""Finds damage in TFRecord files: names the record, its byte and the cause.

TensorFlow reads the files. Only if that fails does this module read them record by record.
"""

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Damage:
    """One record that cannot be read.

    Attributes:
        file: The file that it is in.
        record: Its number in the file, from 1.
        offset: The byte at which it begins; in a gzip file, of the uncompressed content.
        cause: A description of the damage.
    """

    file: str
    record: int
    offset: int
    cause: str

    def __str__(self) -> str:
        return f"{self.file}: record {self.record} cannot be read, at byte {self.offset:,}: {self.cause}"


def refuse_damage(files: Sequence[str], decode: Decode) -> None:
    """Raises UserError if a record cannot be read or parsed, and names the first one.

    Args:
        files: TFRecord files, plain or gzip.
        decode: Parses their records.
    """
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

    Args:
        files: TFRecord files.
        placement: Which features the records should hold.
        tft_output: The output of Transform.
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
    with tf.io.gfile.GFile(file, "rb") as stored:
        _, found = next(_frames(stored, gzipped=file.endswith(".gz")), (0, None))
    return found if isinstance(found, bytes) else None


def _fails(file: str, decode: Decode) -> bool:
    try:
        for batch in read_records(tf.data.Dataset.from_tensors(file), 1, BLOCK_ROWS):
            decode(batch)
    except DAMAGE_ERRORS:
        return True
    return False


def _first_damage(file: str, decode: Decode) -> Damage | None:
    """Returns the first record of a file that cannot be read or parsed."""
    with tf.io.gfile.GFile(file, "rb") as stored:
        frames = enumerate(_frames(stored, gzipped=file.endswith(".gz")), start=1)
        while block := list(islice(frames, BLOCK_ROWS)):
            sound = [found for _, (_, found) in block if isinstance(found, bytes)]
            unparsable = _first_unparsable(sound, decode)
            if unparsable is not None:
                number, (offset, _) = block[unparsable[0]]
                return Damage(file, number, offset, unparsable[1])
            # Nothing follows a frame that cannot be read.
            number, (offset, found) = block[-1]
            if isinstance(found, str):
                return Damage(file, number, offset, found)
    return None


def _frames(stored: BinaryIO, *, gzipped: bool) -> Iterator[tuple[int, bytes | str]]:
    """Yields offset and content of each record; for the first unreadable record, offset and cause, and then ends."""
    opened: IO[bytes] = cast(IO[bytes], gzip.GzipFile(fileobj=stored)) if gzipped else stored
    try:
        yield from read_frames(opened)
    except FrameError as error:
        yield error.offset, error.cause


def _first_unparsable(records: Sequence[bytes], decode: Decode, first: int = 0) -> tuple[int, str] | None:
    """Returns the index and the cause of the first record that cannot be parsed, found by bisection."""
    if not records:
        return None
    try:
        decode(tf.constant(records))
    except tf.errors.InvalidArgumentError as error:
        if len(records) == 1:
            return first, f"it is not an example with the expected features ({error.message.splitlines()[0]})"
        half = len(records) // 2
        halves = ((records[:half], first), (records[half:], first + half))
        return next(filter(None, (_first_unparsable(part, decode, at) for part, at in halves)), None)
    return None
