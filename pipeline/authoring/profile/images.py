"""Finds images: in folders, one per class, in the files that a table names, and in the cells of a column."""

import hashlib
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
from fullpass.preprocessing.values.arrow_text import is_binary
from fullpass.preprocessing.values.encoded_images import header_problem, image_shape
from fullpass.preprocessing.values.list_values import flatten, is_list, lengths_of

_LARGEST = 128
"""Maximum number of pixels of the longer side that `init` proposes."""
_MOST_FILES = 500
"""Images whose sizes are looked at, spread over all."""
_MOST_CELLS = 200
"""Cells that are looked at for images."""
_NEARLY_ALL = 0.9
"""Share of images in a column of images; some are damaged."""
_DEEPEST = 2
"""Levels of folders below a table in which its images are looked for."""
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("eval", "valid", "validation", "val", "dev"), "eval"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""Name of a file or folder -> the split that it holds."""
BROKEN = "broken: "
"""Prefix of the text of an unusable image; the reason follows."""

FROM_IMAGE = {
    "height": "the size of the file's image, not what it shows",
    "width": "the size of the file's image, not what it shows",
    "channels": "the colours of the file's image, not what it shows",
    "file": "the path, whose folder is the label",
}
"""Columns of the format images that are not used as features, with the reason."""

Size = tuple[int, int, int]
"""Height, width and channels."""


@dataclass(frozen=True)
class ImageShape:
    """The proposed size and channels of images.

    Attributes:
        size: Proposed height and width in pixels: the median, at most 128 for the longer side.
        channels: 1 if all images are grey, else 3.
    """

    size: tuple[int, int]
    channels: int
    why: str


def shape_of(sizes: Sequence[Size]) -> ImageShape:
    """Returns the shape for images of these sizes."""
    heights, widths, channels = zip(*sizes, strict=True)
    height, width = (max(1, int(np.median(sides))) for sides in (heights, widths))
    factor = min(1.0, _LARGEST / max(height, width))
    size = (max(1, round(height * factor)), max(1, round(width * factor)))
    same = len(set(heights)) == len(set(widths)) == 1
    grey = max(channels) <= 2
    why = f"images of {width} x {height} pixels" + ("" if same else " in the median") + (", all grey" if grey else "")
    return ImageShape(size, 1 if grey else 3, why + (", made smaller" if factor < 1 else ""))


def image_folders(folder: Path) -> str | dict[str, str] | None:
    """Returns the folder that contains the class folders, or one per split; None if it holds no images.

    Raises:
        UserError: The folder holds images, but no folder per class.
    """
    files = [PurePath(file.path).relative_to(folder) for file in find(str(folder), IMAGE_ENDINGS)]
    if not files:
        return None
    top = {file.parts[0] for file in files if len(file.parts) > 1}
    by_split = {split: name for name in sorted(top) if (split := SPLIT_NAMES.get(name.lower()))}
    if "train" in by_split and top <= set(by_split.values()):
        by_split.setdefault("eval", by_split.pop("test", ""))
        if by_split["eval"]:
            return {split: str(folder / by_split[split]) for split in ("train", "eval", "test") if split in by_split}
    if len({file.parent for file in files}) < 2:
        raise UserError(
            f"{folder}: {len(files):,} images, but no folder for each class. Sort them into one folder per class, or "
            "write a CSV file with a column of their paths and one of labels, and give that file."
        )
    return str(folder)


def manifest_settings(settings: Mapping[str, Any], column: str) -> dict[str, Any] | None:
    """Returns the source that reads a table of paths as images; None if the table needs CSV settings of its own."""
    kept = {key: value for key, value in settings.items() if key in ("missing", "missing_in")}
    if set(settings) - {"format", "path", *kept}:
        return None
    named = {} if column == "file" else {"path_column": column}
    return {"format": "images", "path": settings["path"], "labels": "manifest", **named, **kept}


@dataclass(frozen=True)
class NamedImages:
    """The image files that a table names.

    Attributes:
        folder: The folder to declare if they are not in the table's folder; else None.
    """

    shape: ImageShape
    folder: str | None


def find_named(names: Sequence[str], table: Path) -> NamedImages | None:
    """Returns the images that a table names, in its folder or one below; None if the first image does not exist.

    Args:
        table: The absolute path of the table.

    Raises:
        UserError: None of the images can be read.
    """
    for folder in _folders_below(table.parent, _DEEPEST):
        if not names or not (folder / names[0]).is_file():
            continue
        files = [os.path.normpath(folder / name) for name in names]
        if folder != table.parent:
            return NamedImages(_shape_of_files(files), str(folder))
        outside = [os.path.dirname(file) for file in files if not Path(file).is_relative_to(table.parent)]
        return NamedImages(_shape_of_files(files), os.path.commonpath(outside) if outside else None)
    return None


def _folders_below(folder: Path, depth: int) -> Iterator[Path]:
    """Yields a folder and then its subfolders in depth-first order, down to `depth` levels."""
    yield folder
    if depth:
        for inner in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
            yield from _folders_below(inner, depth - 1)


def _shape_of_files(paths: Sequence[str]) -> ImageShape:
    chosen = np.unique(np.linspace(0, len(paths) - 1, num=min(len(paths), _MOST_FILES)).round().astype(int))
    sizes = [size for index in chosen if (size := _size(Path(paths[index]))) is not None]
    if not sizes:
        raise UserError(f"{paths[0]}: no JPEG, PNG, GIF or BMP image, and no other path leads to one.")
    return shape_of(sizes)


def _size(image: bytes | Path) -> Size | None:
    try:
        return image_shape(image if isinstance(image, bytes) else image.read_bytes())
    except (OSError, struct.error, IndexError, ValueError):
        return None


def image_sizes(cells: pa.Array) -> list[Size]:
    """Returns the sizes of some images; empty if the column of a reader does not hold images.

    A column holds images if nearly all of its first 200 cells have the header of a format that TensorFlow decodes.
    """
    if is_list(cells.type) and lengths_of(cells).max(initial=0) > 1:
        return []
    cells = _single(cells)
    if not is_binary(cells.type):
        return []
    looked_at = cells.drop_null().slice(0, _MOST_CELLS).to_pylist()
    sizes = [size for content in looked_at if (size := _size(content)) is not None]
    return sizes if looked_at and len(sizes) >= _NEARLY_ALL * len(looked_at) else []


def image_texts(cells: pa.Array) -> pa.Array:
    """Returns a digest of each image, or the reason why its header makes it unusable; null where missing.

    Args:
        cells: The cells of a reader: binary, or lists of one element as in tf.Examples. Other types are not images.
    """
    cells = _single(cells)
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        cells = cells.cast(pa.binary())
    if not is_binary(cells.type):
        wrong = f"{BROKEN}{cells.type}, no bytes"
        return pa.array([wrong if cell.is_valid else None for cell in cells], pa.string())
    return pa.array([None if cell is None else _digest(cell) for cell in cells.to_pylist()], pa.string())


def _single(cells: pa.Array) -> pa.Array:
    """Returns the first elements of lists, null for empty ones, and other cells unchanged."""
    if not is_list(cells.type):
        return cells
    lengths = lengths_of(cells)
    return flatten(cells).take(pa.array(np.cumsum(lengths) - lengths, mask=lengths == 0))


def _digest(content: bytes) -> str:
    problem = header_problem(content)
    return f"{BROKEN}{problem}" if problem else hashlib.sha256(content).hexdigest()[:32]
