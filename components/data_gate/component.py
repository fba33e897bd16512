"""The SpanComparison component, which compares the newest span with earlier ones and publishes the findings."""

import json
from collections.abc import Sequence
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx import types
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from fullpass.base.json_text import parse_json, to_json_text
from fullpass.components.accumulate import AccumulateFiles
from fullpass.components.artifacts import SpanComparison as SpanComparisonArtifact
from fullpass.components.beam_component import Artifacts, BeamComponent
from fullpass.components.data_gate.config import GatesConfig
from fullpass.components.data_gate.gate_verdict import GateVerdict
from fullpass.components.data_gate.judge_window import WindowJudge
from fullpass.components.data_gate.page import render_gate
from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.data_gate.span_summary import SpanSummary, SummaryStore
from fullpass.components.data_gate.span_verdicts import KnownVerdicts, VerdictStore
from fullpass.components.data_gate.summarize import SPAN, SpanName, SummarizeFiles, missing_summaries, span_name
from fullpass.components.ingest.component import CONTENT, by_span, with_rows
from fullpass.components.ingest.writing.record_writer import PENDING
from fullpass.components.internals.tfx_internals import artifact_utils, base_beam_executor
from fullpass.components.transform.component import split_files
from fullpass.preprocessing.config import PreprocessingConfig

_ANOMALIES = "SchemaDiff.pb"


class SpanComparisonExecutor(base_beam_executor.BaseBeamExecutor):
    """Judges new spans by the summaries that StatisticsGen has written. Missing summaries are computed again."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        options = json.loads(exec_properties["options"])
        gates, unit = GatesConfig.model_validate(options["gates"]), options["unit"]
        source = SeriesSource.from_json(exec_properties["series"])
        store, verdicts = SummaryStore(options["folder"], source), VerdictStore(options["verdicts"])
        comparison = artifact_utils.get_single_instance(output_dict["comparison"])
        examples = by_span(with_rows(input_dict["examples"]))
        spans = [span_name(artifact, unit) for artifact in examples]
        summaries = self._summaries(spans, examples, store, source, f"{comparison.uri}/{PENDING}")
        anomalies = read_anomalies(artifact_utils.get_single_instance(input_dict["anomalies"]))
        judge = WindowJudge.of(
            store,
            verdicts,
            source,
            gates,
            unit,
            parse_json(KnownVerdicts, exec_properties["known"]),
            {artifact.span: artifact.get_string_custom_property(CONTENT) for artifact in examples},
            anomalies=anomalies,
        )
        found = judge.verdict(summaries)
        most = 2 * max(len(examples), gates.history)
        for decision in found.decisions:
            verdicts.write(decision)
        verdicts.keep(most)
        store.keep(most)
        write_comparison(comparison, found.verdict, options["name"])

    def _summaries(
        self,
        spans: Sequence[SpanName],
        examples: Sequence[types.Artifact],
        store: SummaryStore,
        source: SeriesSource,
        pending: str,
    ) -> list[SpanSummary]:
        if new := missing_summaries(spans, store):
            files = [(path, ((SPAN, number),)) for number in new for path in _record_files(examples[number])]
            with self._make_beam_pipeline() as pipeline:
                _ = pipeline | AccumulateFiles(files, SummarizeFiles(source, store, spans), pending)
            fileio.rmtree(pending)
        written = [store.read(number, fingerprint) for number, _, fingerprint in spans]
        absent = [label for (_, label, _), summary in zip(spans, written, strict=True) if summary is None]
        if absent:
            raise RuntimeError(f"the summaries of {', '.join(absent)} were written and cannot be read back")
        return [summary for summary in written if summary is not None]


def _record_files(examples: types.Artifact) -> list[str]:
    """Returns the files of all splits; an empty path if there are none."""
    splits = artifact_utils.decode_split_names(examples.split_names)
    return [file for split in splits for file in split_files([examples], split)] or [""]


def read_anomalies(anomalies: types.Artifact) -> list[str]:
    """Returns the descriptions of TFDV's anomalies, each once, with the splits that it occurs in."""
    splits_of: dict[str, list[str]] = {}
    for split in artifact_utils.decode_split_names(anomalies.split_names):
        with fileio.open(f"{artifact_utils.get_split_uri([anomalies], split)}/{_ANOMALIES}", "rb") as file:
            message = anomalies_pb2.Anomalies.FromString(file.read())
        for name, info in message.anomaly_info.items():
            splits_of.setdefault(f"{name}: {info.description}", []).append(split)
        if message.HasField("dataset_anomaly_info"):
            splits_of.setdefault(f"all columns: {message.dataset_anomaly_info.description}", []).append(split)
    return [f"{text} ({', '.join(splits)})" for text, splits in splits_of.items()]


def write_comparison(comparison: types.Artifact, verdict: GateVerdict, name: str) -> None:
    """Writes the verdict and its page, and sets the custom properties of the artifact."""
    with fileio.open(f"{comparison.uri}/{comparison.FILE}", "w") as file:
        file.write(to_json_text(verdict.to_json(), indent=1))
    with fileio.open(f"{comparison.uri}/{comparison.PAGE}", "w") as file:
        file.write(render_gate(name, verdict))
    comparison.set_string_custom_property("span", verdict.span)
    comparison.set_string_custom_property("compared_with", verdict.previous)
    comparison.set_int_custom_property("findings", len(verdict.findings))
    comparison.set_int_custom_property("stopped", int(verdict.stopped))
    comparison.set_int_custom_property("retrain", int(verdict.retrain))


class SpanComparison(
    BeamComponent,
    executor=SpanComparisonExecutor,
    parameters=("series", "options", "known"),
    inputs={"examples": standard_artifacts.Examples, "anomalies": standard_artifacts.ExampleAnomalies},
    outputs={"comparison": SpanComparisonArtifact},
):
    """Compares the newest span with the previous span and with the rest of the window.

    Outputs: `comparison`, with the custom properties span, compared_with, findings, stopped (0 or 1), retrain (0 or 1).
    """

    def __init__(
        self,
        preprocessing: PreprocessingConfig,
        gates: GatesConfig,
        *,
        examples: types.BaseChannel,
        anomalies: types.BaseChannel,
        name: str,
        unit: str | None,
        folder: str,
        verdicts: str,
        known: str,
    ):
        """Constructs the component.

        Args:
            preprocessing: Features and label, which determine the series; nothing else of them is in the cache key.
            unit: Length of a span; None for a source without spans.
            folder: Path of the span summaries, which persist between runs.
            verdicts: Path of the decisions about spans, which persist between runs.
            known: `KnownVerdicts` as JSON: the part of these decisions that concerns this run, and so its cache key.
        """
        folders = {"folder": folder, "verdicts": verdicts}
        options = {"gates": gates.model_dump(mode="json"), "name": name, "unit": unit, **folders}
        super().__init__(
            series=SeriesSource.of(preprocessing, unit).to_json(),
            options=to_json_text(options),
            known=known,
            examples=examples,
            anomalies=anomalies,
        )
