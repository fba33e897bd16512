"""Reads the frames of TFRecord files: length, checksum of the length, content, checksum of the content.

Source of the format: tensorflow/core/lib/io/record_writer.h. Nothing here imports TensorFlow.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import IO

import google_crc32c

_LONGEST = (1 << 31) - 1
"""Bytes of the longest record: no protocol buffer message is longer."""
_CHUNK_BYTES = 16 << 20


class FrameError(ValueError):
    """A record that cannot be read; no record after it can be read either.

    Attributes:
        offset: The byte at which it begins, of the uncompressed content.
    """

    def __init__(self, message: str, offset: int, cause: str):
        super().__init__(message)
        self.offset = offset
        self.cause = cause


def read_frames(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yields offset and content of each record of a TFRecord stream, decompressed, each checked by its checksum.

    Raises:
        FrameError: A checksum does not match, or the stream ends inside a record or is not valid gzip data.
    """
    number, offset = 1, 0
    try:
        while head := stream.read(12):
            if len(head) < 12:
                raise FrameError(
                    f"the file ends inside record {number}",
                    offset,
                    "the file is cut short inside the length of the record",
                )
            content = _content(stream, head, number, offset)
            yield offset, content
            number, offset = number + 1, offset + 16 + len(content)
    except EOFError as error:
        raise FrameError(
            f"the file ends inside record {number}: {error}", offset, "the gzip file is cut short"
        ) from error
    except (zlib.error, gzip.BadGzipFile) as error:
        cause = f"the bytes that follow are not gzip data ({error})"
        raise FrameError(f"record {number}: {cause}", offset, cause) from error


def _content(stream: IO[bytes], head: bytes, number: int, offset: int) -> bytes:
    size, checksum = struct.unpack("<QI", head)
    corrupt = f"record {number} is corrupt"
    if masked_crc(head[:8]) != checksum or size > _LONGEST:
        lost = "its length is damaged, so the number of records lost with it is unknown"
        raise FrameError(f"{corrupt}: the checksum of its length does not match", offset, lost)
    content = _read(stream, size)
    stored_sum = stream.read(4)
    if len(content) + len(stored_sum) < size + 4:
        cause = f"the file is cut short: {len(content):,} of {size:,} bytes"
        raise FrameError(f"the file ends inside record {number}", offset, cause)
    if masked_crc(content) != struct.unpack("<I", stored_sum)[0]:
        unfit = f"its {size:,} bytes do not match their checksum"
        raise FrameError(f"{corrupt}: its checksum does not match", offset, unfit)
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


def masked_crc(data: bytes) -> int:
    """Returns the CRC-32C of bytes, masked as the format requires (tensorflow/core/lib/hash/crc32c.h)."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
