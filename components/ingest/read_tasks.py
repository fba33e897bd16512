"""The read tasks of a source. They depend only on the files, so the records are the same for any number of workers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from fullpass.components.ingest.readers.read_source import parts_of
from fullpass.components.ingest.readers.rows import PART_BYTES, WHOLE, FilePart
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.sources.formats import Source


@dataclass(frozen=True)
class ReadTask:
    """The parts of files that one worker reads at a time.

    Attributes:
        parts: Pairs of a file's number and a part of the file.
        number: Number of the task among the tasks of its first file.
        last: Whether the task contains the end of its last file.
        source: Index of its list of files, if several lists are read together.
    """

    parts: tuple[tuple[int, FilePart], ...]
    number: int
    last: bool
    source: int = 0

    @property
    def name(self) -> str:
        """A unique name, which sorts in the order of the source."""
        return f"{self.parts[0][0]:07d}-{self.number:07d}"

    @property
    def place(self) -> dict[str, Any]:
        """Where the task is among all tasks, as JSON for its result; see `check_tasks`."""
        return {"files": [self.parts[0][0], self.parts[-1][0]], "number": self.number, "last": self.last}


def check_tasks(results: Iterable[Mapping[str, Any]], files: int) -> None:
    """Raises RuntimeError unless there is a result for every task of some files: a lost result would mean lost rows.

    Args:
        results: Each has the keys of `ReadTask.place`, in the order of `ReadTask.name`.
    """
    expected = (0, 0)
    for result in results:
        first, last = result["files"]
        if (first, result["number"]) != expected:
            break
        expected = (last + 1, 0) if result["last"] else (first, result["number"] + 1)
    if expected != (files, 0):
        raise RuntimeError(f"read task {expected} of {files} files left no result")


def _groups(files: Sequence[SourceFile]) -> Iterator[tuple[int, ...]]:
    """Yields the numbers of the files that are read together: consecutive files of at most `PART_BYTES` in total."""
    group: list[int] = []
    size = 0
    for number, file in enumerate(files):
        alone = not file.size or size + file.size > PART_BYTES  # the size of a query is unknown
        if group and alone:
            yield tuple(group)
            group, size = [], 0
        group.append(number)
        size += file.size or PART_BYTES
    yield tuple(group)


@beam.typehints.no_annotations  # Beam reads the annotation of a union as a class
def _read_tasks(
    group: tuple[int, tuple[int, ...]], files: Sequence[Sequence[SourceFile]], source: Source
) -> Iterator[ReadTask]:
    source_index, numbers = group
    if len(numbers) > 1:
        yield ReadTask(tuple((number, WHOLE) for number in numbers), 0, last=True, source=source_index)
        return
    parts = parts_of(files[source_index][numbers[0]], source)
    for i, part in enumerate(parts):
        yield ReadTask(((numbers[0], part),), i, last=i == len(parts) - 1, source=source_index)


def spread(pipeline: beam.Pipeline, files: Sequence[Sequence[SourceFile]], source: Source) -> beam.PCollection:
    """Returns the read tasks of all files, distributed over the workers. A task has files of one list only."""
    groups = [(source_index, group) for source_index, of_source in enumerate(files) for group in _groups(of_source)]
    return (
        pipeline
        | "Files" >> beam.Create(groups)
        | "ReadTasks" >> beam.FlatMap(_read_tasks, files, source)
        | "Spread" >> beam.Reshuffle()
    )
