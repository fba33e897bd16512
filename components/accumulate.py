"""Accumulates files of records on Beam: each file to states, and the states of a group of files to a result.

A Beam element is a file or a state of its rows, never a row. The states of the files wait in a pending folder, and the
merge reads them one after the other in the order of the files. So memory hardly grows with the number of files, and a
result does not depend on the order in which workers finish.
"""

import abc
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from tfx.dsl.io import fileio

_CODER = FastPrimitivesCoder()
"""Encodes states as Beam does between two steps."""

_AT_ONCE = 64

_State = TypeVar("_State")

Group = Hashable
"""Files whose states are merged, such as a split or a span."""


class FileAccumulator(abc.ABC):
    """What is accumulated. It is pickled and sent to workers."""

    @abc.abstractmethod
    def start(self, constants: Any) -> None:
        """Prepares a worker for its first file. constants: the result of an earlier step; None if there is none."""

    @abc.abstractmethod
    def accumulate(self, path: str, groups: tuple[Group, ...]) -> Iterator[tuple[Group, Any]]:
        """Yields a state of the file's rows for each of its groups; none for a group to which it adds nothing.

        An empty path is a file without rows, for a group without files.
        """

    @abc.abstractmethod
    def merge(self, group: Group, states: Iterator[Any]) -> Any:
        """Returns the result of a group, from the states of its files in the order of the files."""


def merge_in_rounds(states: Iterable[_State], merge: Callable[[Sequence[_State]], _State]) -> _State:
    """Merges states in order, of which few are in memory: some at once, and then their results likewise.

    A state alone is its own result. Rounds lose less than merging one state after the other where a merge rounds.

    Raises:
        ValueError: There is no state.
    """
    left = iter(states)
    merged = []
    while some := list(islice(left, _AT_ONCE)):
        merged.append(merge(some) if len(some) > 1 else some[0])
    if not merged:
        raise ValueError("there is no state to merge.")
    return merged[0] if len(merged) == 1 else merge_in_rounds(merged, merge)


class AccumulateFiles(beam.PTransform):
    """Accumulates files to a PCollection of (group, result).

    Args:
        files: Path and groups of each file, in order.
        pending: Folder for the states between the two steps, which every worker reaches. The caller removes it.
        constants: Side input of `FileAccumulator.start`.
    """

    def __init__(
        self,
        files: Iterable[tuple[str, tuple[Group, ...]]],
        accumulator: FileAccumulator,
        pending: str,
        constants: beam.pvalue.AsSideInput | None = None,
    ):
        super().__init__()
        self._files = [(number, path, groups) for number, (path, groups) in enumerate(files)]
        self._accumulator = accumulator
        self._pending = pending
        self._side = () if constants is None else (constants,)

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        fileio.makedirs(self._pending)
        accumulate = beam.ParDo(_Accumulate(self._accumulator, self._pending), *self._side)
        merge = beam.ParDo(_Merge(self._accumulator))
        files = pipeline | "Files" >> beam.Create(self._files)
        return files | "Accumulate" >> accumulate | "Group" >> beam.GroupByKey() | "Merge" >> merge


class _Accumulate(beam.DoFn):
    """Accumulates a file: (file number, path, groups) -> (group, (file number, path of the state))."""

    def __init__(self, accumulator: FileAccumulator, pending: str):
        self._accumulator, self._pending = accumulator, pending
        self._started = False

    def process(
        self,
        element: tuple[int, str, Any],
        constants: Any = None,  # Beam's type check does not support a union here
    ) -> Iterator[Any]:
        number, path, groups = element
        if not self._started:
            self._accumulator.start(constants)
            self._started = True
        for index, (group, state) in enumerate(self._accumulator.accumulate(path, groups)):
            waiting = f"{self._pending}/{number:06d}-{index}"
            with fileio.open(waiting, "wb") as file:
                file.write(_CODER.encode(state))
            yield group, (number, waiting)


class _Merge(beam.DoFn):
    """Merges the states of a group: (group, (file number, path of the state) of each file) -> (group, result)."""

    def __init__(self, accumulator: FileAccumulator):
        self._accumulator = accumulator

    def process(self, element: tuple[Any, Iterable[tuple[int, str]]]) -> Iterator[Any]:
        group, parts = element
        yield group, self._accumulator.merge(group, (_read(path) for _, path in sorted(parts)))


def _read(path: str) -> Any:
    with fileio.open(path, "rb") as file:
        return _CODER.decode(file.read())
