"""The StatisticsGen component, which computes TFDV's statistics of every split over all spans."""

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from tfx import types
from tfx.components.statistics_gen.executor import DEFAULT_FILE_NAME
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.dsl.io import fileio
from tfx.types import artifact_utils, component_spec, standard_artifacts

from fullpass.components.ingest.component import rows_of
from fullpass.components.statistics.accumulators_of_tfdv import States, StatisticsAccumulator
from fullpass.components.statistics.raw_records import RawRecords
from fullpass.components.transform.component import split_files
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.raw_columns import raw_columns
from fullpass.preprocessing.progress import report


class StatisticsExecutor(base_beam_executor.BaseBeamExecutor):
    """Accumulates each file, merges the files of a split in their order, and writes TFDV's file of it."""

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
        files = [(split, number, path) for split in splits for number, path in enumerate(split_files(examples, split))]
        folders = {split: artifact_utils.get_split_uri([statistics], split) for split in splits}
        rows = sum(rows_of(examples, split) for split in splits) or None
        with self._make_beam_pipeline() as pipeline:
            _ = (
                pipeline
                | "Files" >> beam.Create(files)
                | "Spread" >> beam.Reshuffle()
                | "Accumulate" >> beam.ParDo(_Accumulate(preprocessing, rows))
                | "Split" >> beam.GroupByKey()
                | "Write" >> beam.MapTuple(_Write(folders))
            )


class _Accumulate(beam.DoFn):
    """(split, number of the file, path) -> (split, (number of the file, states))."""

    def __init__(self, preprocessing: PreprocessingConfig, rows: int | None):
        self._preprocessing, self._rows = preprocessing, rows

    def setup(self) -> None:
        self._records = RawRecords(raw_columns(self._preprocessing))
        self._accumulator = StatisticsAccumulator()
        self._done = 0

    def process(self, element: tuple[str, int, str]) -> Iterator[tuple[str, tuple[int, States]]]:
        split, number, path = element
        states = self._accumulator.start()
        for batch in self._records.batches(path):
            states = self._accumulator.add(states, batch)
            self._done += batch.num_rows
            report(self._done, self._rows, "rows", "read")
        yield split, (number, states)


class _Write:
    """Merges the states of the files of a split, in their order, and writes its statistics."""

    def __init__(self, folders: dict[str, str]):
        self._folders = folders

    def __call__(self, split: str, parts: Iterable[tuple[int, States]]) -> None:
        accumulator = StatisticsAccumulator()
        in_order = [states for _, states in sorted(parts, key=lambda part: part[0])]
        merged = accumulator.finish(accumulator.merge(in_order))
        fileio.makedirs(self._folders[split])
        with fileio.open(f"{self._folders[split]}/{DEFAULT_FILE_NAME}", "wb") as file:
            file.write(merged.SerializeToString())


class StatisticsGenSpec(component_spec.ComponentSpec):
    """Parameters, inputs and outputs of StatisticsGen."""

    PARAMETERS = {"preprocessing": component_spec.ExecutionParameter(type=str)}
    INPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}
    OUTPUTS = {"statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics)}


class StatisticsGen(base_beam_component.BaseBeamComponent):
    """Computes the statistics of the raw examples of every span, as TFDV's FeatureStats.pb for each split."""

    SPEC_CLASS = StatisticsGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(StatisticsExecutor)

    def __init__(self, preprocessing: PreprocessingConfig, *, examples: types.BaseChannel):
        """Constructs the component.

        Args:
            preprocessing: features and label, which decide the columns.
            examples: raw examples of every span.
        """
        super().__init__(
            StatisticsGenSpec(
                preprocessing=preprocessing.model_dump_json(),
                examples=examples,
                statistics=types.Channel(type=standard_artifacts.ExampleStatistics),
            )
        )
