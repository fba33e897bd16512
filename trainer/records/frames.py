"""Reads and makes the frames of TFRecord files: length, checksum of the length, content, checksum of the content.

Source of the format: tensorflow/core/lib/io/record_writer.h. Nothing here imports TensorFlow.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import IO

import google_crc32c

_HEAD = 12
"""Bytes before the content of a record: its length as uint64, and the checksum of the length as uint32 (TFRecord)."""
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


def frame(content: bytes) -> bytes:
    """Returns a record as it stands in a TFRecord file."""
    size = struct.pack("<Q", len(content))
    return size + struct.pack("<I", masked_crc(size)) + content + struct.pack("<I", masked_crc(content))


def masked_crc(data: bytes) -> int:
    """Returns the CRC-32C of bytes, masked as the format requires (tensorflow/core/lib/hash/crc32c.h)."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
