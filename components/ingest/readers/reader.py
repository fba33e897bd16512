"""The base classes of the readers: one object per input of a source."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from fullpass.components.ingest.readers.readable import check_columns, readable
from fullpass.components.ingest.readers.rows import WHOLE, FilePart, Reading, Rows, planned
from fullpass.components.ingest.sources.config import BaseSource, FileSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile, find_files, inputs_by_split, unknown_version
from fullpass.components.ingest.sources.storage import state_of

_Source = TypeVar("_Source", bound=BaseSource)


class Reader(ABC, Generic[_Source]):
    """Reads the inputs of one format, such as files: one object per input."""

    def __init__(self, file: SourceFile, source: _Source):
        self._file = file
        self._path = file.path
        self._source = source

    @classmethod
    def inputs(cls, source: Any, resolve: Resolve) -> Sequence[SourceFile]:
        """Returns all inputs of a source; see `read_source.find_inputs`. They are files, or queries and functions."""
        if isinstance(source, FileSource):
            return find_files(source.path, resolve, endings=source.endings)
        return [SourceFile(one, split, 0, unknown_version()) for split, one in inputs_by_split(source.per_split)]

    def columns(self) -> list[str] | None:
        """Returns the columns of the file, or None if only the rows contain them, or finding them takes long."""
        return None

    def names_in_rows(self, rows: int) -> list[str] | None:
        """Returns the columns in the first rows, of a format whose rows contain them; None if reading them is slow."""
        return self.columns()

    def dictionary_columns(self) -> frozenset[str]:
        """Returns the columns that are stored with a dictionary of values, for values of any type."""
        return frozenset()

    def parts(self) -> list[FilePart]:
        """Returns parts that can be read in parallel; in this order, they make up the file."""
        return planned([WHOLE], state_of(self._path)) if isinstance(self._source, FileSource) else [WHOLE]

    @abstractmethod
    def rows(self, reading: Reading) -> Iterator[Rows]:
        """Yields the rows of one part in order, with the columns of `reading`, in their order."""


class FileReader(Reader[_Source]):
    """Reads files whose columns are checked before they are read, and whose failures name the file."""

    def state(self) -> str:
        """Returns text that changes when the input changes."""
        return state_of(self._path)

    def rows(self, reading: Reading) -> Iterator[Rows]:
        columns = self.columns()
        if columns is not None:
            check_columns(self._path, list(reading.columns), columns)
        with readable(self._path, reading, lambda _: self.state()):
            yield from self._rows(reading)

    @abstractmethod
    def _rows(self, reading: Reading) -> Iterator[Rows]:
        """Yields the rows, as `rows` does."""
