"""State in JSON files: written atomically with a checksum, and validated by a schema or rejected with a clear error.

A state file is a JSON object. Its key `checksum` holds 16 hex digits of the SHA-256 of the other keys, serialized as
JSON with sorted keys and without spaces. Any tool can read the file, and any change of a value is detected. A file
without this key, as earlier releases wrote them, is only validated by its schema. To edit a file by hand, remove the
key.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from fullpass.base.errors import UserError
from fullpass.base.files import write_atomically
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


def decode(content: bytes, file: str | Path, what_to_do: str, *, checked: bool = False) -> dict[str, Any]:
    """Returns the JSON object of a state file, without its checksum.

    Args:
        checked: Whether to reject a file without a checksum, because every release wrote one.

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
    if written != checksum_of(fields) and (checked or written is not None):
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


def read(path: Path, what_to_do: str, *, checked: bool = False) -> dict[str, Any]:
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
    return decode(content, path, what_to_do, checked=checked)


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
