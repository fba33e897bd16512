"""Files that tell when they were damaged: state in JSON files, and seals of any other file.

A state file is a JSON object, written atomically. Its key `checksum` holds 16 hex digits of the SHA-256 of the other
keys, serialized as JSON with sorted keys and without spaces. It is validated by a schema or rejected with a clear
error. Any tool can read the file, and any change of a value is detected.

A seal is the size and the checksum of a file when it was written, to detect a damaged copy later.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import google_crc32c
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from fullpass.base.errors import UserError
from fullpass.base.files import opened, write_atomically
from fullpass.base.json_text import finite

CHECKSUM = "checksum"
T = TypeVar("T")


class DamagedState(UserError):
    """A state file cannot be read or was changed; the message names the file and the next step."""


def encode(fields: Mapping[str, Any], *, indent: int | None = None) -> bytes:
    """Returns a JSON object with its checksum.

    Example:
        >>> encode({"pid": 7})
        b'{"pid": 7, "checksum": "b66ccbc837beebd8"}'
    """
    kept = finite({name: value for name, value in fields.items() if name != CHECKSUM})
    return json.dumps({**kept, CHECKSUM: checksum_of(kept)}, indent=indent).encode()


def decode(content: bytes, file: str | Path, what_to_do: str) -> dict[str, Any]:
    """Returns the JSON object of a state file, without its checksum.

    Raises:
        DamagedState: The content is no JSON object, or was changed.
    """
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _damaged(file, "it is empty" if not content else f"it is not JSON ({error})", what_to_do) from error
    if not isinstance(fields, dict):
        raise _damaged(file, f"it holds no JSON object. Received: {type(fields).__name__}", what_to_do)
    written = fields.pop(CHECKSUM, None)
    if written != checksum_of(fields):
        raise _damaged(file, "it is not what was written", what_to_do)
    return fields


def validate(fields: Mapping[str, Any], shape: type[T], file: str | Path, what_to_do: str) -> T:
    """Returns the fields of a state file as a dataclass; types are checked, not converted.

    Raises:
        DamagedState: A field is absent, unknown, or of another type.
    """
    adapter: TypeAdapter[T] = _adapter(cast(Any, shape))
    try:
        return adapter.validate_json(json.dumps(dict(fields)), strict=True)
    except ValidationError as error:
        found = error.errors()[0]
        place = ".".join(map(str, found["loc"]))
        raise _damaged(file, f"{place}: {found['msg']}", what_to_do) from error


def read(path: Path, what_to_do: str) -> dict[str, Any]:
    """Returns the JSON object of a local state file; see `decode`.

    Raises:
        FileNotFoundError: The file does not exist.
        DamagedState: The file is damaged or cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedState(f"{path}: cannot be read: {error.strerror or error}. {what_to_do}") from error
    return decode(content, path, what_to_do)


def read_as(shape: type[T], path: Path, what_to_do: str) -> T:
    """Returns the content of a local state file as a dataclass; see `read` and `validate`."""
    return validate(read(path, what_to_do), shape, path, what_to_do)


def write(path: Path, fields: Mapping[str, Any], *, indent: int | None = None) -> None:
    """Writes a local state file atomically: under a temporary name that is then renamed."""
    write_atomically(path, encode(fields, indent=indent))


def checksum_of(fields: Mapping[str, Any]) -> str:
    """Returns the checksum of a JSON object that has no checksum yet."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(with_config(ConfigDict(extra="forbid"))(shape))


def _damaged(file: str | Path, why: str, what_to_do: str) -> DamagedState:
    return DamagedState(f"{file} is damaged: {why}. {what_to_do}")


READ_BYTES = 64 << 20
"""The size of the largest file whose content is compared in a listing or before a run."""
_CHUNK_BYTES = 1 << 20
"""Bytes of a read for a checksum."""


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
