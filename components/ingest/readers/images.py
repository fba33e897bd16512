"""Reads undecoded images with their height, width and channels, from one folder per class or from a manifest."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from os.path import exists, normpath
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

from fullpass.base.files import is_address
from fullpass.components.ingest.readers.csv import CsvReader
from fullpass.components.ingest.readers.folders import file_rows, folder_parts, folder_rows
from fullpass.components.ingest.readers.image_files import PIXELS, pillow, read_image
from fullpass.components.ingest.readers.reader import FilePart, Reader, Reading, Rows, check_columns, planned, readable
from fullpass.components.ingest.readers.tables import ParquetReader
from fullpass.components.ingest.sources.config import CsvSource, ImagesSource, ParquetSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile, find_folders
from fullpass.components.ingest.sources.storage import Found, state_of
from fullpass.preprocessing.columns.raw_columns import RawColumn

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp")


class ImagesReader(Reader[ImagesSource]):
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

    def state(self, _: str = "") -> str:
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
                        states.update(state_of(self._place_of(text or "")).encode())
                    except (ValueError, OSError):
                        states.update(b"unreadable")
        return states.hexdigest()

    def rows(self, reading: Reading) -> Iterator[Rows]:
        columns = self.columns()
        check_columns(self._path, list(reading.columns), columns)
        pillow()
        with readable(self._path, reading, self.state):
            if self._source.reads_folders:
                yield from folder_rows(self._path, IMAGE_ENDINGS, reading, self._read(reading))
            else:
                check_columns(self._path, [self._source.path_column], columns)
                yield from self._manifest_rows(reading)

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
                    files.append((number, Found(self._place_of(row[paths] or ""), 0, ""), row))
                except ValueError as error:
                    reading.add_malformed(number, str(error), row[paths] or "", column=paths)
            yield from file_rows(files, reading, self._read(reading))
        reading.malformed += lines.malformed
        reading.bad += lines.bad

    def _read(self, reading: Reading) -> Callable[[Found], dict[str, Any]]:
        decoded = PIXELS in reading.columns
        return lambda found: read_image(found.path, self._source, decoded=decoded)

    def _place_of(self, name: str) -> str:
        """Returns the path of a file of the manifest, in the manifest's folder or in a folder named in the YAML.

        Raises:
            ValueError: The file is outside these folders.
        """
        allowed = [self._path.rpartition("/")[0], *(folder.rstrip("/") for folder in self._folders)]
        if is_address(name) or PurePath(name).is_absolute():
            places = [_without_steps_up(name)]
        else:
            places = [_without_steps_up(f"{folder}/{name}") for folder in allowed]
        inside = [place for place in places if place and any(place.startswith(f"{folder}/") for folder in allowed)]
        if not inside or "::" in name:
            raise ValueError("outside the manifest's folder and those of data.source.folders")
        return next((place for place in inside if not is_address(place) and exists(place)), inside[0])


def _manifest_reader(file: SourceFile) -> Reader:
    if PurePath(file.path).suffix in ParquetSource.endings:
        return ParquetReader(file, ParquetSource(format="parquet", path=file.path))
    return CsvReader(file, CsvSource(format="csv", path=file.path))


def _without_steps_up(place: str) -> str | None:
    """Returns a normalized path without `..`; None if `..` remains, also percent-encoded, which drivers may resolve."""
    path = place if is_address(place) else normpath(place)
    return None if ".." in unquote(path).split("/") else path
