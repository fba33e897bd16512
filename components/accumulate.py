"""Accumulates files of records on Beam: each file to states, and the states of a group of files to a result.

A Beam element is a file or a state of its rows, never a row. The states of the files wait in a pending folder, and the
merge reads them one after the other in the order of the files. So memory hardly grows with the number of files, and a
result does not depend on the order in which workers finish.
"""

import abc
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from tfx.dsl.io import fileio

_CODER = FastPrimitivesCoder()
"""Encodes states as Beam does between two steps."""

_MOST_AT_ONCE = 64
"""States that are merged at once at most."""
_BYTES_AT_ONCE = 128 << 20
"""The same in bytes, so that large states of wide tables do not fill the memory of a worker."""

_State = TypeVar("_State")

Group = Hashable
"""Files whose states are merged, such as a split or a span."""


class States(Iterator[_State]):
    """The states of a group, in the order of its files. A state is read when it is its turn.

    Attributes:
        at_once: How many states may be in memory together: fewer large ones, but at least two.
    """

    def __init__(self, states: Iterable[_State], largest_bytes: int):
        """Constructs the states. largest_bytes: the encoded size of the largest one."""
        self._states = iter(states)
        self.at_once = max(2, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // max(1, largest_bytes)))

    def __next__(self) -> _State:
        return next(self._states)

    def merged(self, merge: Callable[[Sequence[_State]], _State]) -> _State:
        """Merges the states in order: `at_once` of them, then as many of the results, and so on.

        A state alone is its own result. Rounds lose less than merging one state after the other where a merge rounds.

        Raises:
            ValueError: There is no state.
        """
        waiting: list[list[_State]] = []  # by round, those of a later round being earlier states
        for state in self:
            for level in itertools.count():
                if level == len(waiting):
                    waiting.append([])
                waiting[level].append(state)
                if len(waiting[level]) < self.at_once:
                    break
                state = merge(waiting[level])
                waiting[level] = []
        rest: list[_State] = []
        for states in waiting:
            together = [*states, *rest]
            rest = [merge(together)] if len(together) > 1 else together
        if not rest:
            raise ValueError("there is no state to merge.")
        return rest[0]


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
    def merge(self, group: Group, states: States[Any]) -> Any:
        """Returns the result of a group from the states of its files."""


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
    """Accumulates a file: (file number, path, groups) -> (group, (file number, path of the state, its bytes))."""

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
            encoded = _CODER.encode(state)
            with fileio.open(waiting, "wb") as file:
                file.write(encoded)
            yield group, (number, waiting, len(encoded))


class _Merge(beam.DoFn):
    """Merges the states of a group: (group, (file number, path, bytes) of each state) -> (group, result)."""

    def __init__(self, accumulator: FileAccumulator):
        self._accumulator = accumulator

    def process(self, element: tuple[Any, Iterable[tuple[int, str, int]]]) -> Iterator[Any]:
        group, parts = element
        _, paths, sizes = zip(*sorted(parts), strict=True)
        yield group, self._accumulator.merge(group, States(map(_read, paths), max(sizes)))


def _read(path: str) -> Any:
    with fileio.open(path, "rb") as file:
        return _CODER.decode(file.read())
