"""Lists the TFRecord files of a split, and reads their serialized records."""

import glob
import re
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES, gather

BLOCK_ROWS = 8192
"""Rows that are read, parsed and stored together."""


_READ_BUFFER_BYTES = 1 << 20
"""Bytes of a read of a local file."""


_REMOTE_BUFFER_BYTES = 8 << 20
"""Bytes of a read of a store: a request costs as much time as some MiB."""


_READ_RUN = 1024
"""Rows that are taken from one file before the next, so that a batch mixes several files."""


_EMPTY_GZIP = 20
"""Bytes of a gzip file without data: header and trailer."""


_SHARD = re.compile(r"(?P<before>.*)-(?P<number>\d{5,})-of-(?P<of>\d{5,})(?P<after>[^/]*)", re.DOTALL)


def list_files(patterns: Sequence[str], split: str) -> tuple[str, ...]:
    """Returns the files that match any of `patterns`, sorted.

    Raises:
        UserError: No file matches; a shard that the file names count is missing, or is empty while others are not.
    """
    files = sorted(file for pattern in patterns for file in tf.io.gfile.glob(_below_folder(pattern)))
    if not files:
        raise UserError(f"split {split!r} has no files. Looked for: {', '.join(patterns) or 'nothing'}.")
    _check_shards(files, split)
    return tuple(files)


def fingerprint_of(files: Sequence[str]) -> list[list[Any]]:
    """Returns path, size and modification time of files, local or remote."""
    found = []
    for file in files:
        stat = tf.io.gfile.stat(file)
        found.append([file, int(stat.length), int(stat.mtime_nsec)])
    return found


def has_files(pattern: str) -> bool:
    """Returns whether a file matches a pattern."""
    return bool(tf.io.gfile.glob(_below_folder(pattern)))


def _below_folder(pattern: str) -> str:
    """Returns a pattern with its folder escaped, so that brackets in it are no glob syntax; TFX gives `FOLDER/*`."""
    folder, slash, name = pattern.rpartition("/")
    return f"{glob.escape(folder)}/{name}" if slash and tf.io.gfile.isdir(folder) else pattern


def _check_shards(files: Sequence[str], split: str) -> None:
    counted: dict[tuple[str, str], dict[int, str]] = {}
    for file in files:
        if name := _SHARD.fullmatch(file):
            counted.setdefault((name["before"], name["of"]), {})[int(name["number"])] = name["after"]
    gone = [
        f"{before}-{number:0{len(of)}d}-of-{of}{there[min(there)]}"
        for (before, of), there in counted.items()
        for number in sorted(set(range(int(of))) - set(there))
    ]
    # The writers of this pipeline give every shard rows. A split without any rows is reported when it is read.
    empty = [file for file in files if tf.io.gfile.stat(file).length <= (_EMPTY_GZIP if file.endswith(".gz") else 0)]
    empty = [] if len(empty) == len(files) else empty
    for what, bad in (("missing", gone), ("empty", empty)):
        if bad:
            named = ", ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
            raise UserError(
                f"split {split!r}: {len(bad)} of its files are {what}: {named}. They were removed, or copied "
                "incompletely. Restore them, or delete the run that wrote them and run the pipeline again."
            )


def open_records(file: tf.Tensor) -> tf.data.Dataset:
    """Returns the serialized records of one TFRecord file; a name that ends in .gz is read as gzip."""
    compression = tf.where(tf.strings.regex_full_match(file, r".*\.gz"), "GZIP", "")
    remote = tf.strings.regex_full_match(file, r"\w+://.*")
    buffer = tf.where(remote, tf.constant(_REMOTE_BUFFER_BYTES, tf.int64), _READ_BUFFER_BYTES)
    return tf.data.TFRecordDataset(file, compression_type=compression, buffer_size=buffer)


@tf.autograph.experimental.do_not_convert
def read_records(files: tf.data.Dataset, readers: int, rows: int) -> tf.data.Dataset:
    """Returns the serialized records of TFRecord files, string [rows], in a deterministic order.

    Records are batched within each file, so that runs of records are interleaved. Interleaving single records costs
    more than reading them.

    Args:
        files: The files, string [] elements as in `open_records`.
        readers: The files that are open at the same time; their records alternate in runs.
        rows: The rows of each batch but the last.
    """
    runs = files.interleave(
        lambda file: open_records(file).batch(min(rows, _READ_RUN)), cycle_length=readers, num_parallel_calls=readers
    )
    return runs.rebatch(rows)


def records(path: str) -> Iterator[bytes]:
    """Yields the serialized records of a TFRecord file in order.

    TensorFlow's plain iterator reads small records twice as fast as tf.data.

    Args:
        path: The path of the file; one that ends in .gz is decompressed.

    Raises:
        UserError: The file is damaged.
    """
    options = tf.io.TFRecordOptions(compression_type="GZIP" if path.endswith(".gz") else "")
    try:
        yield from tf.compat.v1.io.tf_record_iterator(path, options)
    except tf.errors.DataLossError as error:
        raise UserError(
            f"{path} is damaged: {error.message}. Run again: damaged output of a node is written again."
        ) from error


def record_batches(path: str, *, rows: int, most_bytes: int = BATCH_BYTES) -> Iterator[list[bytes]]:
    """Yields the records of a file in order, in lists that are as long as the bounds allow.

    A batch of tf.data is bounded by its number of rows only, which is gigabytes for records of a megabyte each.

    Args:
        path: The path of a TFRecord file; one that ends in .gz is decompressed.
        rows: The largest number of records of a batch.
        most_bytes: The largest size of a batch of more than one record.

    Raises:
        UserError: The file is damaged.
    """
    yield from gather(records(path), len, rows=rows, most_bytes=most_bytes)
