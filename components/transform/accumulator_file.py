"""The file of a span in the analyzer cache: encoded states, each with a checksum.

    magic            b"fullpass accumulators 2\\n"
    for each entry   CRC-32C of all that follows in it, uint32
                     bytes of the key, uint32; bytes of the packed values, uint64
                     key; packed values

Integers are little-endian. The values of an entry are lengths (a count, uint32, and each length, uint64), then the
values themselves, compressed as one zstd frame behind their size in bytes, uint64. The checksum begins with the
fingerprint of the span, so a file under the name of another span is noticed as well.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence

import google_crc32c
import pyarrow as pa

from fullpass.preprocessing.analysis.accumulators import EncodedStates

_MAGIC = b"fullpass accumulators 2\n"
_HEAD = struct.Struct("<IIQ")
_CHECKSUM = struct.Struct("<I")
_SIZE = struct.Struct("<Q")


class DamagedEntries(Exception):
    """Some entries of a file are damaged. states: of the others."""

    def __init__(self, states: EncodedStates, why: str):
        super().__init__(why)
        self.states = states


def pack(fingerprint: str, entries: Mapping[bytes, Sequence[bytes]]) -> bytes:
    """Returns the content of the file of a span, by its fingerprint."""
    parts = [_MAGIC]
    for key in sorted(entries):
        packed = _packed(entries[key])
        head = _HEAD.pack(0, len(key), len(packed))
        checksum = _CHECKSUM.pack(_checksum(fingerprint, head, key, packed))
        parts += [checksum, head[_CHECKSUM.size :], key, packed]
    return b"".join(parts)


def unpack(fingerprint: str, content: bytes) -> EncodedStates:
    """Returns the states in the file of a span.

    Raises:
        DamagedEntries: An entry is not what was written; the others come with the error.
    """
    if not content.startswith(_MAGIC):
        raise DamagedEntries({}, "it does not begin as a file of accumulators")
    states: EncodedStates = {}
    damaged = []
    for number, (checksum, head, key, packed) in enumerate(_entries(content)):
        if checksum != _checksum(fingerprint, head, key, packed):
            damaged.append(str(number))
        else:
            states[key] = _unpacked(packed)
    if damaged:
        raise DamagedEntries(states, f"entries {', '.join(damaged)} of {number + 1} do not match their checksums")
    return states


def _entries(content: bytes) -> Iterator[tuple[int, bytes, bytes, bytes]]:
    """Yields checksum, head, key and packed values of each entry; of one that is cut short, what is there."""
    place = len(_MAGIC)
    while place < len(content):
        head = content[place : place + _HEAD.size].ljust(_HEAD.size, b"\xff")
        checksum, key_size, size = _HEAD.unpack(head)
        begin = place + _HEAD.size
        place = begin + key_size + size
        yield checksum, head, content[begin : begin + key_size], content[begin + key_size : place]


def _checksum(fingerprint: str, head: bytes, key: bytes, packed: bytes) -> int:
    digest = google_crc32c.Checksum(fingerprint.encode())
    for part in (head[_CHECKSUM.size :], key, packed):
        digest.update(part)
    return int.from_bytes(digest.digest(), "big")


def _packed(values: Sequence[bytes]) -> bytes:
    lengths = struct.pack(f"<I{len(values)}Q", len(values), *map(len, values))
    joined = lengths + b"".join(values)
    return _SIZE.pack(len(joined)) + pa.compress(joined, "zstd", asbytes=True)


def _unpacked(packed: bytes) -> list[bytes]:
    (size,) = _SIZE.unpack_from(packed)
    joined = pa.decompress(packed[_SIZE.size :], size, "zstd", asbytes=True)
    (count,) = struct.unpack_from("<I", joined)
    values = []
    place = 4 + 8 * count
    for length in struct.unpack_from(f"<{count}Q", joined, 4):
        values.append(joined[place : place + length])
        place += length
    return values
