"""The file of a span in the analyzer cache: encoded accumulator states, each with a checksum.

    magic            b"fullpass accumulators 2\\n"
    for each entry   CRC-32C of the rest of the entry, uint32
                     size of the key in bytes, uint32; size of the packed values in bytes, uint64
                     key; packed values

Integers are little-endian. The values of an entry are packed as their lengths (a count, uint32, and each length,
uint64), followed by the values, all compressed as one zstd frame after the uncompressed size in bytes, uint64. The
checksum includes the fingerprint of the span, so a file under the name of another span is detected, too.
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
    """Some entries of a file are damaged. states: states of the undamaged entries."""

    def __init__(self, states: EncodedStates, why: str):
        super().__init__(why)
        self.states = states


def pack(fingerprint: str, entries: Mapping[bytes, Sequence[bytes]]) -> bytes:
    """Returns the content of the file of the span with this fingerprint."""
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
        DamagedEntries: An entry does not match its checksum. The error contains the states of the other entries.
    """
    if not content.startswith(_MAGIC):
        raise DamagedEntries({}, "its first bytes are not those of an accumulator file")
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
    """Yields checksum, head, key and packed values of each entry; of a truncated entry, the remaining bytes."""
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
