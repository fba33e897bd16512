"""The StatisticsGen component, which computes TFDV's statistics of every split over all spans.

The same read of the records computes the data gate's summaries of the spans without a summary. The summaries are in a
store outside the runs. This store affects only how often records are read, never the results: SpanComparison computes
missing summaries itself.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from tfx import types
from tfx.components.statistics_gen.executor import DEFAULT_FILE_NAME
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.dsl.io import fileio
from tfx.types import artifact_utils, component_spec, standard_artifacts

from fullpass.base.progress import report
from fullpass.components.data_gate.series import Series, Sketches, series_of
from fullpass.components.data_gate.span_summary import SummaryStore
from fullpass.components.data_gate.write_summary import WriteSummary, missing_summaries, span_name
from fullpass.components.ingest.component import rows_of
from fullpass.components.ingest.writing.record_writer import PENDING
from fullpass.components.statistics.raw_records import RawRecords
from fullpass.components.statistics.tfdv_accumulator import States, StatisticsAccumulator
from fullpass.components.transform.component import split_files
from fullpass.components.transform.read_records import prefetch
from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.config import PreprocessingConfig

_SKETCHES = "sketches"
_CODER = FastPrimitivesCoder()
"""Encodes states like Beam does between two steps."""


class StatisticsExecutor(base_beam_executor.BaseBeamExecutor):
    """Accumulates each file, merges the states of the files of a split in their order, and writes TFDV's file.

    The states of each file are written to the pending folder, and the merge reads them one after the other. Therefore
    the memory for a split does not grow with its number of files.
    """

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See base class."""
        examples = input_dict["examples"]
        statistics = artifact_utils.get_single_instance(output_dict["statistics"])
        statistics.split_names = examples[0].split_names
        statistics.span = max(artifact.span for artifact in examples)
        preprocessing = PreprocessingConfig.model_validate_json(exec_properties["preprocessing"])
        splits = artifact_utils.decode_split_names(examples[0].split_names)
        options = json.loads(exec_properties["options"])
        series = series_of(preprocessing, options["unit"])
        store = SummaryStore(options["folder"], series, preprocessing)
        spans = [span_name(artifact, options["unit"]) for artifact in examples]
        files = [
            (split, number, path, span)
            for split in splits
            for number, (span, path) in enumerate(
                (span, path) for span, artifact in enumerate(examples) for path in split_files([artifact], split)
            )
        ]
        folders = {split: artifact_utils.get_split_uri([statistics], split) for split in splits}
        rows = sum(rows_of(examples, split) for split in splits) or None
        pending = f"{statistics.uri}/{PENDING}"
        fileio.makedirs(pending)
        accumulate = _Accumulate(preprocessing, rows, series, missing_summaries(spans, store), pending)
        with self._make_beam_pipeline() as pipeline:
            accumulated = (
                pipeline
                | "Files" >> beam.Create(files)
                | "Accumulate" >> beam.ParDo(accumulate).with_outputs(_SKETCHES, main="statistics")
            )
            _ = accumulated["statistics"] | "Split" >> beam.GroupByKey() | "Write" >> beam.MapTuple(_Write(folders))
            _ = (
                accumulated[_SKETCHES]
                | "Span" >> beam.GroupByKey()
                | "WriteSummary" >> beam.MapTuple(WriteSummary(store, spans))
            )
        fileio.rmtree(pending)


class _Accumulate(beam.DoFn):
    """Accumulates a file: (split, file number, path, span index) -> (split, (file number, path of its states)).

    Args:
        preprocessing: features and label.
        rows: total number of rows; None if unknown.
        series: the series to sketch.
        sketched: indices of the spans whose files also yield (span index, (rows, distributions)).
        pending: folder for the states.
    """

    def __init__(
        self,
        preprocessing: PreprocessingConfig,
        rows: int | None,
        series: tuple[Series, ...],
        sketched: Collection[int],
        pending: str,
    ):
        self._preprocessing, self._rows = preprocessing, rows
        self._series, self._sketched = series, frozenset(sketched)
        self._pending = pending

    def setup(self) -> None:
        self._records = RawRecords(raw_columns(self._preprocessing))
        self._reading = ThreadPoolExecutor(1)
        self._accumulator = StatisticsAccumulator()
        self._done = 0

    def teardown(self) -> None:
        self._reading.shutdown()

    def process(self, element: tuple[str, int, str, int]) -> Iterator[Any]:
        split, number, path, span = element
        states = self._accumulator.start()
        sketches = Sketches(self._preprocessing, self._series) if span in self._sketched else None
        for batch in prefetch(self._records.batches(path), self._reading):
            states = self._accumulator.add(states, batch)
            if sketches is not None:
                sketches.add(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows)
            self._done += batch.num_rows
            report(self._done, self._rows, "rows", "read")
        waiting = f"{self._pending}/{split}-{number:06d}"
        with fileio.open(waiting, "wb") as file:
            file.write(_CODER.encode(states))
        yield split, (number, waiting)
        if sketches is not None:
            yield beam.pvalue.TaggedOutput(_SKETCHES, (span, (sketches.rows, sketches.distributions())))


def _read_states(path: str) -> States:
    with fileio.open(path, "rb") as file:
        return _CODER.decode(file.read())


class _Write:
    """Merges the states of the files of a split, in their order, and writes its statistics."""

    def __init__(self, folders: dict[str, str]):
        self._folders = folders

    def __call__(self, split: str, parts: Iterable[tuple[int, str]]) -> None:
        accumulator = StatisticsAccumulator()
        in_order = (_read_states(path) for _, path in sorted(parts))
        merged = accumulator.finish(accumulator.merge(in_order))
        fileio.makedirs(self._folders[split])
        with fileio.open(f"{self._folders[split]}/{DEFAULT_FILE_NAME}", "wb") as file:
            file.write(merged.SerializeToString())


class StatisticsGenSpec(component_spec.ComponentSpec):
    """Parameters, inputs and outputs of StatisticsGen."""

    PARAMETERS = {
        "preprocessing": component_spec.ExecutionParameter(type=str),
        "options": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}
    OUTPUTS = {"statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics)}


class StatisticsGen(base_beam_component.BaseBeamComponent):
    """Computes the statistics of the raw examples of every span, as TFDV's FeatureStats.pb for each split."""

    SPEC_CLASS = StatisticsGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(StatisticsExecutor)

    def __init__(
        self,
        preprocessing: PreprocessingConfig,
        *,
        examples: types.BaseChannel,
        unit: str | None,
        folder: str,
        libraries: str = "",
    ):
        """Constructs the component.

        Args:
            preprocessing: features and label, which determine the columns.
            examples: raw examples of every span.
            unit: length of a span; None for a source without spans.
            folder: path of the data gate's span summaries, which persist between runs.
            libraries: versions of the libraries that compute, which change TFX's cache key.
        """
        versions = {"libraries": libraries} if libraries else {}
        super().__init__(
            StatisticsGenSpec(
                preprocessing=preprocessing.model_dump_json(),
                options=json.dumps({"unit": unit, "folder": folder, **versions}),
                examples=examples,
                statistics=types.Channel(type=standard_artifacts.ExampleStatistics),
            )
        )
