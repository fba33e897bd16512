"""The read tasks of a source. They depend on the files alone, so records are the same however many workers read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam

from fullpass.components.ingest.readers.open_source import parts_of
from fullpass.components.ingest.readers.reader import PART_BYTES, WHOLE, FilePart
from fullpass.components.ingest.sources.source_config import Source
from fullpass.components.ingest.sources.source_files import SourceFile


@dataclass(frozen=True)
class ReadTask:
    """The parts of files that one worker reads at a time.

    parts: number of a file, and the part of it. last: whether the end of the last file is in it. number: of the task
    among those of its first file. source: place of its list of files among those that are read together.
    """

    parts: tuple[tuple[int, FilePart], ...]
    number: int
    last: bool
    source: int = 0

    @property
    def name(self) -> str:
        """Unique; sorts in the order of the source."""
        return f"{self.parts[0][0]:07d}-{self.number:07d}"


def _groups(files: Sequence[SourceFile]) -> Iterator[tuple[int, ...]]:
    """Yields the numbers of files that are read together: neighbours of together at most `PART_BYTES`."""
    group: list[int] = []
    size = 0
    for number, file in enumerate(files):
        alone = not file.size or size + file.size > PART_BYTES  # the size of a query is not known
        if group and alone:
            yield tuple(group)
            group, size = [], 0
        group.append(number)
        size += file.size or PART_BYTES
    yield tuple(group)


def _read_tasks(
    group: tuple[int, tuple[int, ...]], files: Sequence[Sequence[SourceFile]], source: Source
) -> Iterator[ReadTask]:
    place, numbers = group
    if len(numbers) > 1:
        yield ReadTask(tuple((number, WHOLE) for number in numbers), 0, last=True, source=place)
        return
    parts = parts_of(files[place][numbers[0]], source)
    for i, part in enumerate(parts):
        yield ReadTask(((numbers[0], part),), i, last=i == len(parts) - 1, source=place)


def spread(pipeline: beam.Pipeline, files: Sequence[Sequence[SourceFile]], source: Source) -> beam.PCollection:
    """Returns the read tasks of all files, spread over the workers. A task has files of one list only."""
    groups = [(place, group) for place, of_place in enumerate(files) for group in _groups(of_place)]
    return (
        pipeline
        | "Files" >> beam.Create(groups)
        | "ReadTasks" >> beam.FlatMap(_read_tasks, files, source)
        | "Spread" >> beam.Reshuffle()
    )
