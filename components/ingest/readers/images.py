"""Images as they are, with their height, width and channels: in one folder per class, or named by a manifest."""

import io
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np

from components.ingest.files import SourceFile
from components.ingest.readers.csv import CsvReader
from components.ingest.readers.extras import load_package
from components.ingest.readers.folders import file_rows, folder_parts, folder_rows
from components.ingest.reading import Part, Reading, Rows, check_columns, readable
from components.ingest.sources import CsvSource, Decoded, ImagesSource
from components.ingest.storage import Found, is_address, open_raw
from preprocessing.columns import RawColumn
from preprocessing.errors import did_you_mean

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp")
_PIXELS = "pixels"
_FORMATS = ("JPEG", "PNG", "GIF", "BMP")
_CHANNELS = {"1": 1, "P": 3, "I;16": 1}


class ImagesReader:
    """See `Reader`. Rows are numbered in the order of paths, or by line of the manifest."""

    def __init__(self, file: SourceFile, source: ImagesSource):
        self._path = file.path
        self._source = source
        self._from_image = ["image", "height", "width", "channels", *([_PIXELS] if source.decode else [])]
        self._manifest = CsvReader(file, CsvSource(format="csv", path=file.path))

    def columns(self) -> list[str]:
        """See base class."""
        if self._source.labels == "folders":
            return [*self._from_image, "label", "file"]
        return list(dict.fromkeys([*self._from_image, *self._manifest.columns()]))

    def parts(self) -> list[Part]:
        """See base class."""
        if self._source.labels == "folders":
            return folder_parts(self._path, IMAGE_ENDINGS)
        return self._manifest.parts()

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        columns = self.columns()
        check_columns(self._path, list(reading.columns), columns)
        with readable(self._path):
            if self._source.labels == "folders":
                yield from folder_rows(self._path, IMAGE_ENDINGS, reading, self._read(reading))
            else:
                check_columns(self._path, ["file"], columns)
                yield from self._manifest_rows(reading)

    def _manifest_rows(self, reading: Reading) -> Iterator[Rows]:
        listed = [*reading.columns, *(self._manifest.columns() if reading.whole else ())]
        needed = dict.fromkeys(["file", *(name for name in listed if name not in self._from_image)])
        lines = Reading(reading.file, {name: RawColumn(name, "string") for name in needed}, reading.part)
        for rows in self._manifest.rows(lines):
            entries = zip(rows.numbers.tolist(), rows.table.to_pylist(), strict=True)
            files = [(number, Found(self._beside(row["file"] or ""), 0, ""), row) for number, row in entries]
            yield from file_rows(files, reading, self._read(reading))
        reading.malformed += lines.malformed
        reading.bad += lines.bad

    def _read(self, reading: Reading) -> Callable[[Found], dict[str, Any]]:
        return partial(_read_image, decoded=self._source.decode if _PIXELS in reading.columns else None)

    def _beside(self, name: str) -> str:
        folder = self._path.rpartition("/")[0]
        return name if is_address(name) or PurePath(name).is_absolute() else f"{folder}/{name}"


def _read_image(file: Found, *, decoded: Decoded | None) -> dict[str, Any]:
    """Returns the columns that an image gives.

    Raises:
        ValueError: It is none of the formats that TensorFlow decodes, or is cut short.
        OSError: There is no such file.
    """
    with open_raw(file.path) as stream:
        data = stream.read()
    pillow = load_package("PIL.Image", package="pillow", needed_by="format: images")
    try:
        with pillow.open(io.BytesIO(data)) as image:
            width, height = image.size
            channels = _CHANNELS.get(image.mode, len(image.getbands()))
            form = image.format
            pixels = _pixels(image, decoded)
    except pillow.DecompressionBombError as error:
        raise ValueError(str(error)) from error
    if form not in _FORMATS:
        raise ValueError(f"{form}, not {', '.join(_FORMATS)}{did_you_mean(str(form), _FORMATS)}")
    return {"image": data, "height": height, "width": width, "channels": channels, **pixels}


def _pixels(image: Any, decoded: Decoded | None) -> dict[str, np.ndarray]:
    """Reads all of an image, to see that it is whole; returns it as uint8 [height * width * channels] if asked for."""
    if decoded is None:
        image.draft("L", (1, 1))  # the fastest look at all of a JPEG: at an eighth of its size
        image.load()
        return {}
    mode, size = "L" if decoded.channels == 1 else "RGB", (decoded.width, decoded.height)
    image.draft(mode, size)  # a large JPEG at half its size or less, never below the one wanted
    bilinear = load_package("PIL.Image", package="pillow", needed_by="format: images").Resampling.BILINEAR
    return {_PIXELS: np.asarray(image.convert(mode).resize(size, bilinear)).ravel()}
