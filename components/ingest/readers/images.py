"""Reads undecoded images with their height, width and channels, from one folder per class or from a manifest."""

import hashlib
import io
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from os.path import exists, normpath
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

import numpy as np

from fullpass.base.files import is_address
from fullpass.components.ingest.readers.csv import CsvReader
from fullpass.components.ingest.readers.folders import file_rows, folder_parts, folder_rows
from fullpass.components.ingest.readers.readable import check_columns, load_package
from fullpass.components.ingest.readers.reader import FileReader, Reader
from fullpass.components.ingest.readers.rows import FilePart, Reading, Rows, planned
from fullpass.components.ingest.readers.tables import ParquetReader
from fullpass.components.ingest.sources.config import CsvSource, Decoded, ImagesSource, ParquetSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile, find_folders
from fullpass.components.ingest.sources.storage import Found, open_raw, state_of
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.encoded_images import bomb_problem

PIXELS = "pixels"
_FORMATS = ("JPEG", "PNG", "GIF", "BMP")
_CHANNELS = {"1": 1, "P": 3, "I;16": 1}
"""Mode of Pillow -> channels that TensorFlow decodes, where Pillow has another number of bands."""
_OTHERS = (
    (0, b"%!PS", "EPS"),
    (0, b"\xc5\xd0\xd3\xc6", "EPS"),
    (8, b"WEBP", "WEBP"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (4, b"ftypavif", "AVIF"),
    (4, b"ftyphei", "HEIC"),
    (0, b"%PDF", "PDF"),
)
"""Offset and magic bytes of formats that are not read, to name them in messages."""
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp")


class ImagesReader(FileReader[ImagesSource]):
    """Rows are numbered in the order of paths, or by the line or row of the manifest."""

    def __init__(self, file: SourceFile, source: ImagesSource):
        super().__init__(file, source)
        self._folders = file.address.splitlines()
        self._from_image = ["image", "height", "width", "channels", *([PIXELS] if source.decode else [])]
        self._manifest = _manifest_reader(file)

    @classmethod
    def inputs(cls, source: ImagesSource, resolve: Resolve) -> Sequence[SourceFile]:
        """Returns the folders, or the manifests; the version of a manifest contains those of its images."""
        if source.reads_folders:
            return find_folders(source.path, resolve, IMAGE_ENDINGS)
        folders = "\n".join(map(resolve, source.folders))
        files = [replace(file, address=folders) for file in super().inputs(source, resolve)]
        states = [cls(file, source).state() for file in files]
        return [replace(file, version=state, state=state) for file, state in zip(files, states, strict=True)]

    def columns(self) -> list[str]:
        if self._source.reads_folders:
            return [*self._from_image, "label", "file"]
        return list(dict.fromkeys([*self._from_image, *(self._manifest.columns() or ())]))

    def parts(self) -> list[FilePart]:
        if self._source.reads_folders:
            return folder_parts(self._path, IMAGE_ENDINGS)
        state = self.state()
        return planned(self._manifest.parts(), state)

    def state(self) -> str:
        """Returns text that changes when one of the images or the manifest changes."""
        if self._source.reads_folders:
            return state_of(self._path, IMAGE_ENDINGS)
        states = hashlib.sha256(state_of(self._path).encode())
        listed = SourceFile(self._path, None, 0, "")
        for part in self._manifest.parts():
            name = self._source.path_column
            for rows in self._manifest.rows(Reading(listed, {name: RawColumn(name, "string")}, part)):
                for text in rows.table.column(name).to_pylist():
                    try:
                        states.update(state_of(self._path_of(text or "")).encode())
                    except (ValueError, OSError):
                        states.update(b"unreadable")
        return states.hexdigest()

    def _rows(self, reading: Reading) -> Iterator[Rows]:
        pillow()
        if self._source.reads_folders:
            return folder_rows(self._path, IMAGE_ENDINGS, reading, self._read(reading))
        check_columns(self._path, [self._source.path_column], self.columns())
        return self._manifest_rows(reading)

    def _manifest_rows(self, reading: Reading) -> Iterator[Rows]:
        listed = [*reading.columns, *((self._manifest.columns() or ()) if reading.all_columns else ())]
        paths = self._source.path_column
        needed = dict.fromkeys([paths, *(name for name in listed if name not in self._from_image)])
        # The manifest is checked together with its images, after both are read.
        file, part = replace(reading.file, state=""), replace(reading.part, state="")
        lines = Reading(file, {name: RawColumn(name, "string") for name in needed}, part)
        for rows in self._manifest.rows(lines):
            files = []
            for number, row in zip(rows.numbers.tolist(), rows.table.to_pylist(), strict=True):
                try:
                    files.append((number, Found(self._path_of(row[paths] or ""), 0, ""), row))
                except ValueError as error:
                    reading.add_malformed(number, str(error), row[paths] or "", column=paths)
            yield from file_rows(files, reading, self._read(reading))
        reading.malformed += lines.malformed
        reading.bad += lines.bad

    def _read(self, reading: Reading) -> Callable[[Found], dict[str, Any]]:
        decoded = PIXELS in reading.columns
        return lambda found: read_image(found.path, self._source, decoded=decoded)

    def _path_of(self, name: str) -> str:
        """Returns the path of a file of the manifest, in the manifest's folder or in a folder named in the YAML.

        Raises:
            ValueError: The file is outside these folders.
        """
        allowed = [self._path.rpartition("/")[0], *(folder.rstrip("/") for folder in self._folders)]
        if is_address(name) or PurePath(name).is_absolute():
            paths = [_without_steps_up(name)]
        else:
            paths = [_without_steps_up(f"{folder}/{name}") for folder in allowed]
        inside = [path for path in paths if path and any(path.startswith(f"{folder}/") for folder in allowed)]
        if not inside or "::" in name:
            raise ValueError("outside the manifest's folder and those of data.source.folders")
        return next((path for path in inside if not is_address(path) and exists(path)), inside[0])


def _manifest_reader(file: SourceFile) -> Reader:
    if PurePath(file.path).suffix in ParquetSource.endings:
        return ParquetReader(file, ParquetSource(format="parquet", path=file.path))
    return CsvReader(file, CsvSource(format="csv", path=file.path))


def _without_steps_up(path: str) -> str | None:
    """Returns a normalized path without `..`; None if `..` remains, also percent-encoded, which drivers may resolve."""
    normalized = path if is_address(path) else normpath(path)
    return None if ".." in unquote(normalized).split("/") else normalized


def pillow() -> Any:
    """Returns Pillow's module Image.

    Raises:
        UserError: Pillow is not installed.
    """
    return load_package("PIL.Image", package="pillow", needed_by="format: images")


def read_image(path: str, source: ImagesSource, *, decoded: bool) -> dict[str, Any]:
    """Returns the columns of an image: image (its bytes), height, width, channels, and pixels if requested.

    Pillow opens an EPS file by starting Ghostscript, whatever the file's name is. Therefore the formats to try are
    passed to Pillow, and the size of an image is compared with the limits before its pixels are decoded.

    Args:
        decoded: Whether to return `pixels`, uint8 [height * width * channels] of `source.decode`.

    Raises:
        ValueError: The file has none of the formats that TensorFlow decodes, is truncated or too large, or a decoder
            or driver cannot read it for another reason.
    """
    try:
        data = _content(path, source.max_file_mb)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the limit of pixels is checked below
            with pillow().open(io.BytesIO(data), formats=_FORMATS) as image:
                return {"image": data, **_columns(image, data, source, decoded=decoded)}
    except pillow().UnidentifiedImageError:
        known = [f"{name}, " for at, start, name in _OTHERS if data[at : at + len(start)] == start]
        raise ValueError(f"{''.join(known[:1])}not {', '.join(_FORMATS)}") from None
    except (OSError, ValueError):
        raise
    except Exception as error:  # decoders raise many types of errors
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _content(path: str, limit_mb: int) -> bytes:
    if not is_address(path) and not stat.S_ISREG(Path(path).stat().st_mode):
        raise ValueError("no regular file")
    with open_raw(path) as stream:
        data = stream.read((limit_mb << 20) + 1)
    if len(data) > limit_mb << 20:
        raise ValueError(f"larger than {limit_mb:,} MB (data.source.max_file_mb)")
    return data


def _columns(image: Any, data: bytes, source: ImagesSource, *, decoded: bool) -> dict[str, Any]:
    width, height = image.size
    if width * height > source.max_megapixels * 10**6:
        raise ValueError(f"{width:,} x {height:,} pixels, above {source.max_megapixels:,} million (max_megapixels)")
    if (problem := bomb_problem(data)) is not None:
        raise ValueError(problem)
    channels = _CHANNELS.get(image.mode, len(image.getbands()))
    pixels = _pixels(image, source.decode if decoded else None)
    return {"height": height, "width": width, "channels": channels, **pixels}


def _pixels(image: Any, decoded: Decoded | None) -> dict[str, np.ndarray]:
    """Reads the whole image, to check it; returns it as uint8 [height * width * channels] if requested."""
    if decoded is None:
        image.draft("L", (1, 1))  # the fastest full read of a JPEG: at an eighth of its size
        image.load()
        return {}
    mode, size = "L" if decoded.channels == 1 else "RGB", (decoded.width, decoded.height)
    image.draft(mode, size)  # reads a large JPEG at half its size or less, never below the target
    return {PIXELS: np.asarray(image.convert(mode).resize(size, pillow().Resampling.BILINEAR)).ravel()}
