"""Damaged TFRecord files: which record, at which byte, and what of a split can be read without it.

Files are read by TensorFlow; only when that fails are they looked at here, record by record.
"""

import gzip
import logging
import shutil
import struct
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import google_crc32c
import tensorflow as tf
import tensorflow_transform as tft

from preprocessing.errors import UserError
from preprocessing.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID
from preprocessing.places import raw_name
from trainer.input_fn import BLOCK_ROWS, Decode, read_records
from trainer.placement import Placement

_LOG = logging.getLogger(__name__)
Damages = (tf.errors.DataLossError, tf.errors.InvalidArgumentError)
"""What reading or parsing a damaged record raises."""
_MEND = "Delete the run that wrote it and run the pipeline again"


@dataclass(frozen=True)
class Damage:
    """One record that cannot be read.

    Attributes:
        file: that it is in.
        record: its number in the file, from 1.
        offset: byte at which it begins; of a gzipped file, of what is in it.
        cause: in words.
        ends_file: whether no place can be told from which the file could be read on.
    """

    file: str
    record: int
    offset: int
    cause: str
    ends_file: bool = False

    def __str__(self) -> str:
        return f"{self.file}: record {self.record} cannot be read, at byte {self.offset:,}: {self.cause}"


@dataclass(frozen=True)
class Readable:
    """Files that can be read, copies of the damaged ones among them; these last as long as this object.

    Attributes:
        files: in the order of the split.
        damages: records that they lack.
    """

    files: tuple[str, ...]
    damages: tuple[Damage, ...] = ()


def without_damage(files: Sequence[str], decode: Decode, split: str, max_records: int) -> Readable:
    """Returns the files with copies in place of those that hold damaged records, which the copies leave out.

    Args:
        files: TFRecord files, plain or gzip.
        decode: how to parse their records.
        split: whose they are.
        max_records: damaged records that may be left out.

    Raises:
        UserError: There are more of them, or what follows one cannot be read either.
    """
    folder = tempfile.mkdtemp(prefix="fullpass-input-")
    readable: list[str] = []
    damages: list[Damage] = []
    try:
        for number, file in enumerate(files):
            copy = f"{folder}/{number:05d}"
            found = _copy(file, copy, decode, max_records - len(damages)) if _fails(file, decode) else []
            readable.append(copy if found else file)
            damages += found
            _refuse(damages, split, max_records)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    result = Readable(tuple(readable), tuple(damages))
    weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    for damage in damages:
        _LOG.warning("input: left out of split %s: %s", split, damage)
    return result


def check_features(files: Sequence[str], placement: Placement, tft_output: tft.TFTransformOutput) -> None:
    """Raises UserError if transformed examples and the transform graph are not of one make, by the first record.

    Raw examples are not checked: what they lack is a missing value.

    Args:
        files: TFRecord files.
        placement: what the records should hold.
        tft_output: of the transform graph.
    """
    if not placement.materialized:
        return
    try:
        first = next(iter(read_records(tf.data.Dataset.from_tensor_slices(list(files)), 1, 1)), None)
        held = set(tf.train.Example.FromString(first.numpy()[0]).features.feature) if first is not None else None
    except (*Damages, ValueError):  # damage is for those who read on
        return
    if held is None:
        return
    transformed, columns = tft_output.transformed_feature_spec(), tft_output.raw_feature_spec()
    wanted = (*placement.stored, LABEL, EXAMPLE_WEIGHT)
    needed = {name for name in wanted if isinstance(transformed[name], tf.io.FixedLenFeature)}
    known = {*transformed, *map(raw_name, columns), LABEL, EXAMPLE_WEIGHT, ROW_ID}
    lacks, unknown = sorted(needed - held), sorted(held - known)
    told = [f"lack {', '.join(lacks)}, which the transform graph makes"] if lacks else []
    told += [f"hold {', '.join(unknown)}, which the transform graph does not know"] if unknown else []
    if told:
        raise UserError(
            f"{files[0]}: these examples {', and '.join(told)}. Examples and graph come from different runs of "
            "Transform. Run Transform again: fullpass run FILE --from Transform --fresh."
        )


def _refuse(damages: Sequence[Damage], split: str, max_records: int) -> None:
    if not damages:
        return
    if damages[-1].ends_file:
        raise UserError(f"{damages[-1]}. How many records are lost with it cannot be told. {_MEND}.")
    if len(damages) > max_records == 0:
        skip = "" if split == "eval" else ", or set input.bad_records.max_records to train without such records"
        raise UserError(
            f"{damages[0]}. The file is damaged, cut short or was written by something else. {_MEND}{skip}."
        )
    if len(damages) > max_records:
        raise UserError(
            f"split {split!r} has more than {max_records} damaged records, which is what input.bad_records.max_records "
            f"allows. The first: {damages[0]}. {_MEND}, or raise that number."
        )


def _fails(file: str, decode: Decode) -> bool:
    try:
        for batch in read_records(tf.data.Dataset.from_tensors(file), 1, BLOCK_ROWS):
            decode(batch)
    except Damages:
        return True
    return False


def _copy(file: str, copy: str, decode: Decode, allowed: int) -> list[Damage]:
    """Writes the sound records of a file to `copy` and returns the others, up to the first beyond what is allowed."""
    damages: list[Damage] = []
    sound: list[tuple[int, int, bytes]] = []

    def flush(writer: tf.io.TFRecordWriter) -> None:
        refused = _refused([record for _, _, record in sound], decode)
        for place, (number, offset, record) in enumerate(sound):
            if place in refused:
                damages.append(Damage(file, number, offset, refused[place]))
            else:
                writer.write(record)
        sound.clear()

    with tf.io.gfile.GFile(file, "rb") as stored, tf.io.TFRecordWriter(copy) as writer:
        for number, (offset, found) in enumerate(_frames(stored, gzipped=file.endswith(".gz")), start=1):
            if isinstance(found, bytes):
                sound.append((number, offset, found))
            else:
                flush(writer)
                damages.append(Damage(file, number, offset, *found))
            if len(sound) == BLOCK_ROWS:
                flush(writer)
            if len(damages) > max(allowed, 0):
                return damages
        flush(writer)
    return damages


def _frames(stored: BinaryIO, *, gzipped: bool) -> Iterator[tuple[int, bytes | tuple[str, bool]]]:
    """Yields the offset of each record and the record itself, or (cause, whether the file ends with it)."""
    opened = gzip.GzipFile(fileobj=stored) if gzipped else stored
    offset = 0
    try:
        while header := opened.read(12):
            if len(header) < 12:
                yield offset, ("the file is cut short in its length", False)
                return
            size, checksum = struct.unpack("<QI", header)
            if _checksum(header[:8]) != checksum:
                yield offset, ("its length is damaged, and with that the place of the next", True)
                return
            record, stored_sum = opened.read(size), opened.read(4)
            if len(record) + len(stored_sum) < size + 4:
                yield offset, (f"the file is cut short: {len(record):,} of {size:,} bytes", False)
                return
            same = _checksum(record) == struct.unpack("<I", stored_sum)[0]
            yield offset, record if same else (f"its {size:,} bytes do not match their checksum", False)
            offset += 16 + size
    except EOFError:
        yield offset, ("the gzip file is cut short", False)
    except (zlib.error, gzip.BadGzipFile) as error:
        yield offset, (f"what follows is no gzip data ({error})", True)


def _checksum(content: bytes) -> int:
    """Returns the masked CRC-32C of TFRecord files (tensorflow/core/lib/hash/crc32c.h)."""
    crc = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _refused(records: Sequence[bytes], decode: Decode, first: int = 0) -> dict[int, str]:
    """Returns place -> reason of the records that cannot be parsed, found by halving."""
    if not records:
        return {}
    try:
        decode(tf.constant(records))
    except tf.errors.InvalidArgumentError as error:
        if len(records) == 1:
            return {first: f"it is no example of the expected features ({error.message.splitlines()[0]})"}
        half = len(records) // 2
        return _refused(records[:half], decode, first) | _refused(records[half:], decode, first + half)
    return {}
