"""The StatisticsGen component, which computes TFDV's statistics of every split over all spans.

The same read of the records computes the data gate's summaries of the spans without a summary. The summaries are in a
store outside the runs. This store affects only how often records are read, never the results: SpanComparison computes
missing summaries itself.
"""

import json
from collections.abc import Iterator
from typing import Any

from tfx import types
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from fullpass.components.accumulate import AccumulateFiles, FileAccumulator, States
from fullpass.components.artifact_files import STATISTICS_FILE
from fullpass.components.beam_component import Artifacts, BeamComponent
from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.data_gate.sketches import Sketches
from fullpass.components.data_gate.span_summary import SummaryStore
from fullpass.components.data_gate.summarize import SPAN, SummarizeFiles, missing_summaries, span_name
from fullpass.components.ingest.component import rows_of_split
from fullpass.components.ingest.writing.record_writer import PENDING
from fullpass.components.internals.tfx_internals import artifact_utils, base_beam_executor
from fullpass.components.read_records import RecordReader
from fullpass.components.statistics.tfdv_accumulator import StatisticsAccumulator
from fullpass.components.transform.component import split_files
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.input.raw_examples import RawExamples, raw_dtypes

BATCH_ROWS = 16_384
"""Rows that are counted at once."""
_SPLIT = "split"


class StatisticsExecutor(base_beam_executor.BaseBeamExecutor):
    """Accumulates each file once, for the statistics of its split and for the summary of its span."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        examples = input_dict["examples"]
        statistics = artifact_utils.get_single_instance(output_dict["statistics"])
        statistics.split_names = examples[0].split_names
        statistics.span = max(artifact.span for artifact in examples)
        options = json.loads(exec_properties["options"])
        source = SeriesSource.from_json(exec_properties["series"])
        store = SummaryStore(options["folder"], source)
        spans = [span_name(artifact, options["unit"]) for artifact in examples]
        splits = artifact_utils.decode_split_names(examples[0].split_names)
        new = set(missing_summaries(spans, store))
        files = [
            (path, ((_SPLIT, split), *([(SPAN, number)] if number in new else [])))
            for split in splits
            for number, artifact in enumerate(examples)
            for path in split_files([artifact], split)
        ]
        folders = {split: artifact_utils.get_split_uri([statistics], split) for split in splits}
        rows = sum(rows_of_split(examples, split) for split in splits) or None
        accumulator = StatisticsOfFiles(source, rows, folders, SummarizeFiles(source, store, spans))
        pending = f"{statistics.uri}/{PENDING}"
        with self._make_beam_pipeline() as pipeline:
            _ = pipeline | AccumulateFiles(files, accumulator, pending)
        fileio.rmtree(pending)


class StatisticsOfFiles(FileAccumulator):
    """Accumulates the statistics of splits, and summaries of spans from the same batches.

    Args:
        rows: Total number of rows; None if unknown.
        folders: Split -> folder of its statistics.
    """

    def __init__(self, source: SeriesSource, rows: int | None, folders: dict[str, str], summaries: SummarizeFiles):
        self._source, self._folders, self._summaries = source, folders, summaries
        self._dtypes = raw_dtypes({column.name: column for column in source.columns})
        self._reader = RecordReader("read", rows, BATCH_ROWS, dtypes=self._dtypes)

    def start(self, constants: Any) -> None:
        self._examples = RawExamples(self._dtypes)
        self._statistics = StatisticsAccumulator()

    def accumulate(self, path: str, groups: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
        split, *spans = groups
        states, sketches = self._statistics.start(), Sketches(self._source) if spans else None
        for batch in self._reader.parsed(path, self._examples.lists):
            states = self._statistics.add(states, batch)
            if sketches is not None:
                sketches.add_batch(batch)
        yield split, states
        if sketches is not None:
            yield spans[0], (sketches.rows, sketches.distributions())

    def merge(self, group: Any, states: States[Any]) -> None:
        kind, name = group
        if kind == SPAN:
            return self._summaries.merge(group, states)
        accumulator = StatisticsAccumulator()
        merged = accumulator.finish(accumulator.merge(states))
        fileio.makedirs(self._folders[name])
        with fileio.open(f"{self._folders[name]}/{STATISTICS_FILE}", "wb") as file:
            file.write(merged.SerializeToString())
        return None


class StatisticsGen(
    BeamComponent,
    executor=StatisticsExecutor,
    parameters=("series", "options"),
    inputs={"examples": standard_artifacts.Examples},
    outputs={"statistics": standard_artifacts.ExampleStatistics},
):
    """Computes the statistics of the raw examples of every span, as TFDV's FeatureStats.pb for each split."""

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
            preprocessing: Features and label, which determine the columns and the series. Nothing else of them is part
                of the cache key: A changed encoding or transform reads no record again.
            unit: Length of a span; None for a source without spans.
            libraries: Versions of the libraries that compute, which change TFX's cache key.
        """
        versions = {"libraries": libraries} if libraries else {}
        super().__init__(
            series=SeriesSource.of(preprocessing, unit).to_json(),
            options=json.dumps({"unit": unit, "folder": folder, **versions}),
            examples=examples,
        )
