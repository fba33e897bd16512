"""Accumulates the files of a request log, in this process or by the workers of Beam, as statistics are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from tfx.dsl.io import fileio

from fullpass.components.accumulate import AccumulateFiles, FileAccumulator, States
from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.watch.came_in import HourCount, HourKey, HourSketches
from fullpass.components.watch.log_rows import LogReader, ReadCount, Refused
from fullpass.components.watch.skew import RowsOfTraining, Skew, SkewSums
from fullpass.components.watch.went_out import ScoringPlan, WentOut, WentOutSums, out_together

_FILE_BYTES = 64 << 20
"""Bytes of files that are accumulated together: a log has many small files, and an hour is sketched once for them."""
_CODER = FastPrimitivesCoder()


@dataclass
class Watched:
    """What some files hold."""

    count: ReadCount = field(default_factory=ReadCount)
    hours: dict[HourKey, HourCount] = field(default_factory=dict)
    out: WentOut = field(default_factory=WentOut)
    skew: Skew = field(default_factory=dict)


class WatchFiles(FileAccumulator):
    """Counts, sketches and measures the rows of files. A path is `first:end`, a range of the files."""

    def __init__(
        self,
        files: Sequence[SourceFile],
        reader: LogReader,
        series: Mapping[int, SeriesSource],
        plans: Mapping[int, ScoringPlan],
        accumulator: SliceAccumulator,
        trained: RowsOfTraining | None = None,
    ):
        self._trained = trained
        self._files, self._reader, self._series = tuple(files), reader, series
        self._plans, self._accumulator = plans, accumulator

    @property
    def ranges(self) -> list[str]:
        """Ranges of files of a few megabytes, in order."""
        found, begin, size = [], 0, 0
        for number, file in enumerate(self._files):
            if size and size + file.size > _FILE_BYTES:
                found.append(f"{begin}:{number}")
                begin, size = number, 0
            size += file.size
        return [*found, f"{begin}:{len(self._files)}"]

    def start(self, constants: Any) -> None:
        """See base class: models are loaded when they are needed."""

    def accumulate(self, path: str, groups: tuple[Any, ...]) -> Iterator[tuple[Any, Watched]]:
        begin, end = map(int, path.split(":"))
        sketches, sums, count = HourSketches(self._series), WentOutSums(self._plans, self._accumulator), ReadCount()
        skew = SkewSums(self._trained)
        for file in self._files[begin:end]:
            for batch in self._reader.read(file, count):
                if isinstance(batch, Refused):
                    sketches.add_refused(batch)
                else:
                    sketches.add(batch)
                    sums.add(batch)
                    skew.add(batch)
        yield groups[0], Watched(count, sketches.counts(), sums.found, skew.found)

    def merge(self, group: Any, states: States[Watched]) -> Watched:
        return states.merged(self._together)

    def _together(self, parts: Sequence[Watched]) -> Watched:
        whole = Watched(out=out_together([part.out for part in parts], self._accumulator))
        for part in parts:
            whole.count.join(part.count)
            for key, hour in part.hours.items():
                whole.hours[key] = whole.hours[key].join(hour) if key in whole.hours else hour
            for column, skew in part.skew.items():
                whole.skew[column] = whole.skew[column].join(skew) if column in whole.skew else skew
        return whole

    def watch(self) -> Watched:
        """Returns what all files hold, read in this process."""
        states = (state for path in self.ranges for _, state in self.accumulate(path, ("",)))
        return self.merge("", States(states, 1))

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self._files)

    def watch_on_beam(self, args: Sequence[str], pending: str) -> Watched:
        """Returns what all files hold, read by the workers of Beam.

        Args:
            args: Arguments of Beam.
            pending: Folder for the states of the files, which every worker reaches.
        """
        found = f"{pending}/watched"
        with beam.Pipeline(argv=list(args)) as pipeline:
            merged = pipeline | AccumulateFiles([(path, ("",)) for path in self.ranges], self, f"{pending}/states")
            _ = merged | "Write" >> beam.Map(_write, path=found)
        with fileio.open(found, "rb") as file:
            return _CODER.decode(file.read())[1]


def _write(found: tuple[Any, Watched], path: str) -> None:
    with fileio.open(path, "wb") as file:
        file.write(_CODER.encode(found))
