"""Reads and makes the frames of TFRecord files: length, checksum of the length, content, checksum of the content.

Source of the format: tensorflow/core/lib/io/record_writer.h. Nothing here imports TensorFlow.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.values.arrow_text import joined_rows

_HEAD_DTYPE = np.dtype([("length", "<u8"), ("checksum", "<u4")])
"""What stands before the content of a record: its length, and the checksum of the length."""
_HEAD = _HEAD_DTYPE.itemsize
FRAME_BYTES = _HEAD + 4
"""Bytes that a frame adds to the content of a record."""
_LONGEST = (1 << 31) - 1
"""Bytes of the longest record: no protocol buffer message is longer."""
_CHUNK_BYTES = 16 << 20
"""Longer records are read in parts, so that a damaged length takes no memory."""


def read_frames(stream: IO[bytes]) -> Iterator[bytes]:
    """Yields the content of each record of a TFRecord stream, decompressed, each checked by its checksum.

    Raises:
        ValueError: A checksum does not match, or the stream ends inside a record or is not valid gzip data.
    """
    number = 1
    try:
        while head := stream.read(_HEAD):
            yield _content(stream, head, number)
            number += 1
    except EOFError as error:
        raise ValueError(f"the file ends inside record {number}: {error}") from error
    except (zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"record {number}: the bytes that follow are not gzip data ({error})") from error


def _content(stream: IO[bytes], head: bytes, number: int) -> bytes:
    cut = f"the file ends inside record {number}"
    if len(head) < _HEAD:
        raise ValueError(cut)
    size, checksum = struct.unpack("<QI", head)
    if masked_crc(head[:8]) != checksum or size > _LONGEST:
        raise ValueError(f"record {number} is corrupt: the checksum of its length does not match")
    content = _read(stream, size)
    stored_sum = stream.read(4)
    if len(content) + len(stored_sum) < size + 4:
        raise ValueError(cut)
    if masked_crc(content) != struct.unpack("<I", stored_sum)[0]:
        raise ValueError(f"record {number} is corrupt: its checksum does not match")
    return content


def _read(stream: IO[bytes], size: int) -> bytes:
    """Returns `size` bytes, fewer at the end; a wrong length does not take more memory than the file has bytes."""
    if size <= _CHUNK_BYTES:
        return stream.read(size)
    chunks: list[bytes] = []
    while size and (chunk := stream.read(min(size, _CHUNK_BYTES))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def frames(records: pa.BinaryArray) -> bytes:
    """Returns records as the bytes of a TFRecord file; none is null, and all together have less than 2 GiB.

    This takes two thirds of the time of TensorFlow's writer, which is called once per record.
    """
    distinct = pc.binary_length(records).dictionary_encode()
    lengths, place = distinct.dictionary.to_numpy().astype("<u8"), distinct.indices.to_numpy()
    heads = np.empty(len(records), _HEAD_DTYPE)
    heads["length"], heads["checksum"] = lengths[place], _masked_crcs([one.tobytes() for one in lengths])[place]
    checksums = _masked_crcs(records.to_numpy(zero_copy_only=False))
    _, _, data = joined_rows([_as_binary(heads), records, _as_binary(checksums)], "", null="").buffers()
    return data.to_pybytes() if len(records) else b""


def _masked_crcs(contents: Sequence[bytes]) -> np.ndarray:
    crcs = np.fromiter(map(google_crc32c.value, contents), np.uint64, len(contents))
    return _masked(crcs).astype("<u4")


def _as_binary(values: np.ndarray) -> pa.BinaryArray:
    kind = pa.binary(values.dtype.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(values), [None, pa.py_buffer(values)]).cast(pa.binary())


def masked_crc(data: bytes) -> int:
    """Returns the CRC-32C of bytes, masked as the format requires (tensorflow/core/lib/hash/crc32c.h)."""
    return _masked(google_crc32c.value(data))


def _masked(crc: Any) -> Any:
    """Returns a checksum masked: an integer, or an array of uint64."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
