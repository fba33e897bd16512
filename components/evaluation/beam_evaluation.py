"""The evaluation on Beam. An element is a file or the accumulator state of its rows, never a row."""

from collections.abc import Iterable, Mapping, Sequence

import apache_beam as beam
import tensorflow as tf

from fullpass.base.progress import report
from fullpass.components.evaluation.score_rows import Scorer
from fullpass.components.evaluation.slice_states import SliceAccumulator, State
from fullpass.trainer.records.record_files import record_batches

_BATCH_ROWS = 8192


class Evaluate(beam.PTransform):
    """Evaluates TFRecord files, and returns the merged state of all rows.

    Args:
        accumulator: accumulator of the metrics.
        exports: folders of SavedModels; the new model first.
        columns: type of each raw column that slices use: `number` or `string`.
        rows: total number of rows.
    """

    def __init__(self, accumulator: SliceAccumulator, exports: Sequence[str], columns: Mapping[str, str], rows: int):
        super().__init__()
        self._accumulator = accumulator
        self._of_files = (accumulator, tuple(exports), dict(columns), rows)

    def expand(self, files: beam.PCollection) -> beam.PCollection:
        """See base class."""
        states = files | "Accumulate" >> beam.ParDo(_Accumulate(*self._of_files))
        return states | "Merge" >> beam.CombineGlobally(_Merge(self._accumulator))


class _Accumulate(beam.DoFn):
    def __init__(self, accumulator: SliceAccumulator, exports: Sequence[str], columns: Mapping[str, str], rows: int):
        self._accumulator = accumulator
        self._exports = exports
        self._columns = columns
        self._rows = rows

    def setup(self) -> None:
        self._scorer = Scorer(self._exports, self._columns)
        self._done = 0

    def process(self, file: str) -> Iterable[State]:
        state = self._accumulator.start()
        for records in record_batches(file, rows=_BATCH_ROWS):
            scored = self._scorer(tf.constant(records))
            state = self._accumulator.add(state, scored)
            state.sample = state.sample.with_rows(scored.row_ids, records)
            self._done += len(records)
            report(self._done, self._rows, "rows", "evaluated")
        yield state


class _Merge(beam.CombineFn):
    def __init__(self, accumulator: SliceAccumulator):
        self._accumulator = accumulator

    def create_accumulator(self) -> State:
        return self._accumulator.start()

    def add_input(self, merged: State, state: State) -> State:
        return self._accumulator.merge([merged, state])

    def merge_accumulators(self, states: Iterable[State]) -> State:
        return self._accumulator.merge(states)

    def extract_output(self, merged: State) -> State:
        return merged
