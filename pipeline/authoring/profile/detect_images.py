"""Finds images and their sizes: image folders, one per class, or a CSV file that names image files."""

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.images import IMAGE_ENDINGS
from fullpass.components.ingest.sources.storage import find
from fullpass.preprocessing.values.encoded_images import image_shape

_LARGEST = 128
"""Maximum number of pixels of the longer side that `init` proposes."""
_LOOKED_AT = 500
_DEEPEST = 2
_NAMES_OF_SPLITS = {
    "train": "train", "training": "train", "eval": "eval", "val": "eval", "valid": "eval", "validation": "eval",
    "dev": "eval", "test": "test", "testing": "test",
}  # fmt: skip

FROM_IMAGE = {
    "height": "the size of the file's image, not what it shows",
    "width": "the size of the file's image, not what it shows",
    "channels": "the colours of the file's image, not what it shows",
    "file": "the path, whose folder is the label",
}
"""Columns of the format images that are not used as features, with the reason."""


@dataclass(frozen=True)
class ImageShape:
    """The proposed size and channels of images.

    Attributes:
        size: Proposed height and width in pixels: the median, at most 128 for the longer side.
        channels: 1 if all images are grey, else 3.
        why: The reason, in words.
    """

    size: tuple[int, int]
    channels: int
    why: str


def image_folders(folder: Path) -> str | dict[str, str] | None:
    """Returns the folder that contains the class folders, or one per split; None if it holds no images.

    Raises:
        UserError: The folder holds images, but no folder per class.
    """
    files = [PurePath(file.path).relative_to(folder) for file in find(str(folder), IMAGE_ENDINGS)]
    if not files:
        return None
    top = {file.parts[0] for file in files if len(file.parts) > 1}
    if {_NAMES_OF_SPLITS.get(name.lower()) for name in top} >= {"train"} and top <= set(_by_name(top).values()):
        by_split = _by_name(top)
        by_split.setdefault("eval", by_split.pop("test", ""))
        if by_split["eval"]:
            return {split: str(folder / by_split[split]) for split in ("train", "eval", "test") if split in by_split}
    if len({file.parent for file in files}) < 2:
        raise UserError(
            f"{folder}: {len(files):,} images, but no folder for each class. Sort them into one folder per class, or "
            "write a CSV file with a column of their paths and one of labels, and give that file."
        )
    return str(folder)


def _by_name(folders: set[str]) -> dict[str, str]:
    return {split: name for name in sorted(folders) if (split := _NAMES_OF_SPLITS.get(name.lower()))}


def manifest_settings(settings: Mapping[str, Any], column: str) -> dict[str, Any] | None:
    """Returns the source that reads a table of paths as images; None if the table needs CSV settings of its own.

    Args:
        settings: `data.source` of the table.
        column: the column of paths.
    """
    kept = {key: value for key, value in settings.items() if key in ("missing", "missing_in")}
    if set(settings) - {"format", "path", *kept}:
        return None
    named = {} if column == "file" else {"path_column": column}
    return {"format": "images", "path": settings["path"], "labels": "manifest", **named, **kept}


@dataclass(frozen=True)
class NamedImages:
    """The image files that a table names.

    Attributes:
        files: their paths.
        folder: the folder to declare if they are not in the table's folder; else None.
    """

    files: list[str]
    folder: str | None


def find_named(names: Sequence[str], table: Path) -> NamedImages | None:
    """Returns the images that a table names, in its folder or one below; None if the first image does not exist.

    Args:
        names: the paths in the table.
        table: the absolute path of the table.
    """
    for folder in _folders_below(table.parent, _DEEPEST):
        if not names or not (folder / names[0]).is_file():
            continue
        files = [os.path.normpath(folder / name) for name in names]
        if folder != table.parent:
            return NamedImages(files, str(folder))
        outside = [file for file in files if not Path(file).is_relative_to(table.parent)]
        return NamedImages(files, os.path.commonpath([os.path.dirname(file) for file in outside]) if outside else None)
    return None


def _folders_below(folder: Path, depth: int) -> Iterator[Path]:
    """Yields a folder and then its subfolders in depth-first order, down to `depth` levels."""
    yield folder
    if depth:
        for inner in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
            yield from _folders_below(inner, depth - 1)


def shape_of_files(paths: Sequence[str]) -> ImageShape:
    """Returns the shape for images, from the headers of some of them.

    Raises:
        UserError: None of the images can be read.
    """
    chosen = np.unique(np.linspace(0, len(paths) - 1, num=min(len(paths), _LOOKED_AT)).round().astype(int))
    shapes = [shape for index in chosen if (shape := _shape(paths[index])) is not None]
    if not shapes:
        raise UserError(
            f"{paths[0] if paths else 'no image'}: no JPEG, PNG, GIF or BMP image, and no other path leads to one."
        )
    heights, widths, channels = zip(*shapes, strict=True)
    return shape_of(heights, widths, max(channels))


def _shape(path: str) -> tuple[int, int, int] | None:
    try:
        return image_shape(Path(path).read_bytes())
    except (OSError, ValueError, IndexError, struct.error):
        return None


def shape_of_columns(columns: Mapping[str, pa.Array]) -> ImageShape:
    """Returns the shape for images, from the columns of the format images."""
    height, width, channels = (
        [int(text) for text in columns[name].drop_null().to_pylist()] for name in ("height", "width", "channels")
    )
    return shape_of(height, width, max(channels, default=3))


def shape_of(heights: Sequence[int], widths: Sequence[int], channels: int) -> ImageShape:
    """Returns the shape for images of these sizes and at most this number of channels."""
    channels = 1 if channels <= 2 else 3
    height, width = (max(1, int(np.median(sides))) for sides in (heights, widths))
    factor = min(1.0, _LARGEST / max(height, width))
    size = (max(1, round(height * factor)), max(1, round(width * factor)))
    same = len(set(heights)) == len(set(widths)) == 1
    why = f"images of {width} x {height} pixels" if same else f"images of {width} x {height} pixels in the median"
    why += ", all grey" if channels == 1 else ""
    return ImageShape(size, channels, why + (", made smaller" if factor < 1 else ""))
