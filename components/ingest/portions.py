"""What one worker reads at a time: it depends on the files alone, so records are the same however many workers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam

from components.ingest.files import SourceFile
from components.ingest.read import parts_of
from components.ingest.reading import PART_BYTES, WHOLE, Part
from components.ingest.sources import Source


@dataclass(frozen=True)
class Portion:
    """What one worker reads at a time.

    parts: number of a file, and the part of it. last: whether the end of the last file is in it. number: of the portion
    among those of its first file.
    """

    parts: tuple[tuple[int, Part], ...]
    number: int
    last: bool

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


def _portions(group: tuple[int, ...], files: Sequence[SourceFile], source: Source) -> Iterator[Portion]:
    if len(group) > 1:
        yield Portion(tuple((number, WHOLE) for number in group), 0, last=True)
        return
    parts = parts_of(files[group[0]], source)
    for i, part in enumerate(parts):
        yield Portion(((group[0], part),), i, last=i == len(parts) - 1)


def spread(pipeline: beam.Pipeline, files: Sequence[SourceFile], source: Source) -> beam.PCollection:
    """Returns the portions of all files, spread over the workers."""
    return (
        pipeline
        | "Files" >> beam.Create(list(_groups(files)))
        | "Portions" >> beam.FlatMap(_portions, files, source)
        | "Spread" >> beam.Reshuffle()
    )
