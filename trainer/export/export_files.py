"""The files of an export: its description, and their comparison with what was written.

The description `fullpass.json` lists the size in bytes and the CRC-32C of all other files under `files`, and contains
its own checksum. It does not list the file that a push adds (`origin.json`) or files that are added later. An export of
another program has no description and is not verified.
"""

from collections.abc import Mapping
from typing import Any

from fullpass.base import state_file
from fullpass.base.files import names_under, read_bytes
from fullpass.base.state_file import DamagedState, Seal, damage_of, seal_of
from fullpass.preprocessing.columns.raw_columns import RawColumn

EXTRA = "assets.extra"
"""Folder of the files that callers of an export need; TensorFlow does not read it."""
DESCRIPTION = f"{EXTRA}/fullpass.json"
"""File of every export that describes it."""
FILES = "files"
"""Key of `fullpass.json`: path in the export -> [bytes, CRC-32C]."""
LOOKUPS = "lookups"
"""Key of `fullpass.json`: joined table -> its keys, columns, number of rows and digest."""
SERVING_DEFAULT = "serving_default"
SERVING_RAW = "serving_raw"
SERVING_FEATURES = "serving_features"
TRANSFORM_FEATURES = "transform_features"
NETWORK = f"{EXTRA}/network.keras"
"""The network alone, which `keras.models.load_model` reads: transformed features by input name -> logits."""
ORIGIN = f"{EXTRA}/origin.json"
"""File in every pushed version that names the model artifact from which it was copied."""
LABELS = "labels"
"""A function of the loaded export, not a signature."""
_WHAT_TO_DO = "Restore the model from a copy, or push it again: fullpass run FILE --from Pusher --fresh."


def listed_files(folder: str) -> dict[str, list[int]]:
    """Returns size and CRC-32C of every file below a folder, by its path in the folder."""
    seals = {name: seal_of(f"{folder}/{name}") for name in names_under(folder)}
    return {name: [seal.bytes, seal.crc32c] for name, seal in seals.items()}


def column_of(described: Mapping[str, Any]) -> RawColumn:
    """Returns a raw column from its description in `fullpass.json`."""
    return RawColumn(**{name: value for name, value in described.items() if name != "key"})


def read_description(folder: str, what_to_do: str = _WHAT_TO_DO) -> dict[str, Any] | None:
    """Returns the description of an export; None if it has none.

    Args:
        folder: The folder of the SavedModel, a path or an address.

    Raises:
        DamagedState: The description is damaged.
    """
    path = f"{folder}/{DESCRIPTION}"
    content = read_bytes(path)
    return None if content is None else state_file.decode(content, path, what_to_do)


def verify_export(folder: str, *, largest: float = float("inf")) -> None:
    """Compares an export with the list in its description, if it has one.

    Args:
        folder: The folder of the SavedModel, a path or an address.
        largest: The bytes above which only the size of a local file is compared.

    Raises:
        DamagedState: A file is missing, or differs from the one that was written.
    """
    for name, (size, checksum) in (read_description(folder) or {}).get(FILES, {}).items():
        damage = damage_of(f"{folder}/{name}", Seal(size, checksum), read=size <= largest)
        if damage is not None:
            raise DamagedState(f"{damage}. {_WHAT_TO_DO}")
