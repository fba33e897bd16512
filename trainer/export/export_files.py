"""Verifies the files of an export, so that no component uses a damaged copy.

`fullpass.json` lists the size in bytes and the CRC-32C of all other files under `files`, and contains its own checksum.
It does not list the file that a push adds (`origin.json`) or files that are added later. An export of an earlier
release lists no files and is not verified.
"""

import os
from collections.abc import Callable, Iterator
from typing import IO, Any

import google_crc32c

from fullpass.base import state_file
from fullpass.base.state_file import DamagedState

DESCRIPTION = "assets.extra/fullpass.json"
"""File of every export that describes it."""
FILES = "files"
"""Key of `fullpass.json`: path in the export -> [bytes, CRC-32C]."""
READ_BYTES = 64 << 20
"""The size of the largest file that a listing of models reads."""
_PIECE = 1 << 20
_WHAT_TO_DO = "Restore the model from a copy, or push it again: fullpass run FILE --from Pusher --fresh."


def listed_files(folder: str) -> dict[str, list[int]]:
    """Returns size and CRC-32C of every file below a folder, by its path in the folder."""
    return {name: list(_measured(folder, name)) for name in sorted(_names(folder))}


def verify_export(folder: str, *, largest: float = float("inf")) -> None:
    """Compares an export with the list in its `fullpass.json`, if it has one.

    Args:
        folder: The folder of the SavedModel.
        largest: The bytes above which only the size of a file is compared.

    Raises:
        DamagedState: A file is missing, or differs from the one that was written.
    """
    for name, (size, checksum) in _listed(folder).items():
        path = f"{folder}/{name}"
        found = _size(path)
        if found is None:
            raise DamagedState(f"{path} is gone. {_WHAT_TO_DO}")
        if found != size:
            raise DamagedState(f"{path} is damaged: it has {found:,} of {size:,} bytes. {_WHAT_TO_DO}")
        if size <= largest and _measured(folder, name)[1] != checksum:
            raise DamagedState(f"{path} is damaged: it is not what was written. {_WHAT_TO_DO}")


def _listed(folder: str) -> dict[str, list[int]]:
    path = f"{folder}/{DESCRIPTION}"
    if _size(path) is None:
        return {}
    with _opener(path)(path, "rb") as file:
        return state_file.decode(file.read(), path, _WHAT_TO_DO).get(FILES, {})


def crc32c_of(file: IO[bytes]) -> int:
    """Returns the CRC-32C of the rest of an open file."""
    digest: Any = google_crc32c.Checksum()
    while piece := file.read(_PIECE):
        digest.update(piece)
    return int.from_bytes(digest.digest(), "big")


def _measured(folder: str, name: str) -> tuple[int, int]:
    path = f"{folder}/{name}"
    with _opener(path)(path, "rb") as file:
        return _size(path) or 0, crc32c_of(file)


def _names(folder: str) -> Iterator[str]:
    walk: Callable[[str], Any] = os.walk
    if _is_address(folder):
        import tensorflow as tf

        walk = tf.io.gfile.walk
    for path, _, names in walk(folder):
        yield from (os.path.relpath(os.path.join(path, name), folder) for name in names)


def _size(path: str) -> int | None:
    """Returns the bytes of a file; None if it does not exist."""
    if not _is_address(path):
        return os.path.getsize(path) if os.path.isfile(path) else None
    import tensorflow as tf

    return tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else None


def _opener(path: str) -> Callable[..., Any]:
    if not _is_address(path):
        return open
    import tensorflow as tf

    return tf.io.gfile.GFile


def _is_address(path: str) -> bool:
    """Whether a path is remote; only remote paths need an import of TensorFlow."""
    return "://" in path


SERVING_DEFAULT = "serving_default"


SERVING_RAW = "serving_raw"


TRANSFORM_FEATURES = "transform_features"


LABELS = "labels"
"""A function of the loaded export, not a signature."""
