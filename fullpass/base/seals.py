"""The size and the checksum of a file when it was written, to detect a damaged copy later."""

import os
from dataclasses import dataclass
from typing import Any

import google_crc32c

from fullpass.base.files import opened

READ_BYTES = 64 << 20
"""The size of the largest file whose content is compared in a listing or before a run."""
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Seal:
    """The bytes and the CRC-32C of a file."""

    bytes: int
    crc32c: int


def seal_of(path: str) -> Seal:
    """Returns the seal of a file at a path or an address."""
    digest: Any = google_crc32c.Checksum()
    size = 0
    with opened(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return Seal(size, int.from_bytes(digest.digest(), "big"))


def damage_of(path: str, written: Seal, *, read: bool = True) -> str | None:
    """Returns how a file differs from the one that was written, in a sentence without its period; None if it does not.

    Args:
        read: Whether to compare the content; if not, only the size of a local file is compared.
    """
    try:
        found = seal_of(path) if read else Seal(os.path.getsize(path), written.crc32c)
    except OSError:
        return f"{path} is gone"
    if found.bytes != written.bytes:
        return f"{path} is damaged: it has {found.bytes:,} of {written.bytes:,} bytes"
    return None if found == written else f"{path} is damaged: its content is not what was written"
