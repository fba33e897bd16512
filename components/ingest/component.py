"""The Ingest component: an ExampleGen of our own, since stock ones lose zeros, shards and bad rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.types import artifact_utils, component_spec, standard_artifacts

from components.ingest.config import IngestConfig
from components.ingest.files import SourceFile
from components.ingest.first_pass import with_cuts
from components.ingest.ingest import Ingest as Ingestion
from components.ingest.ingest import Manifest, finish, run
from preprocessing.columns import RawColumn


class IngestExecutor(base_beam_executor.BaseBeamExecutor):
    """Runs an ingestion and describes it on the Examples artifact."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See base class."""
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        ingestion = _from_json(exec_properties["request"], examples.uri)
        ingestion = with_cuts(ingestion, self._make_beam_pipeline)
        with self._make_beam_pipeline() as pipeline:
            run(ingestion, pipeline)
        describe(examples, finish(ingestion))


def describe(examples: types.Artifact, manifest: Manifest) -> None:
    """Records splits and row counts on the artifact, for MLMD, reports and other components."""
    examples.split_names = artifact_utils.encode_split_names(list(manifest.written))
    examples.span = 0
    examples.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    examples.set_string_custom_property("file_format", "tfrecords_gzip")  # readers go by the file name's suffix
    examples.set_int_custom_property("rows_read", manifest.read)
    examples.set_int_custom_property("rows_quarantined", manifest.rows_quarantined)
    examples.set_int_custom_property("rows_per_second", round(manifest.rows_per_second))
    for split, rows in manifest.written.items():
        examples.set_int_custom_property(f"rows_{split}", rows)
    for overlap in manifest.overlaps:
        examples.set_int_custom_property(f"overlap_{overlap.second}_{overlap.first}", overlap.rows)


class IngestSpec(component_spec.ComponentSpec):
    """Parameters and outputs of Ingest."""

    PARAMETERS = {
        "request": component_spec.ExecutionParameter(type=str),
        "fingerprint": component_spec.ExecutionParameter(type=str),
    }
    INPUTS: dict[str, component_spec.ChannelParameter] = {}
    OUTPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}


class Ingest(base_beam_component.BaseBeamComponent):
    """Raw files to tf.Example TFRecords in splits and shards.

    Outputs: `examples`, with custom properties rows_read, rows_quarantined, rows_<split>, and overlap_<split>_<other>,
    the rows of a split that stand in the other one too; the artifact also holds `ingest.json` (the manifest) and, if
    any row was bad, `quarantine.parquet`.
    """

    SPEC_CLASS = IngestSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(IngestExecutor)

    def __init__(
        self,
        config: IngestConfig,
        *,
        files: Sequence[SourceFile],
        splits: Sequence[str],
        columns: Mapping[str, RawColumn],
        gzip: bool,
        fingerprint: str,
    ):
        """Constructs the component.

        Args:
            config: the part of `data:` that decides the records.
            files: what to read.
            splits: names of the splits, in order.
            columns: raw columns of the examples.
            gzip: whether to compress the records.
            fingerprint: changes when a file does, so that TFX's cache knows of it.
        """
        request = {
            "config": config.model_dump(mode="json"),
            "files": [asdict(file) for file in files],
            "splits": list(splits),
            "columns": [asdict(column) for column in columns.values()],
            "gzip": gzip,
        }
        examples = types.Channel(type=standard_artifacts.Examples)
        super().__init__(IngestSpec(request=json.dumps(request), fingerprint=fingerprint, examples=examples))


def _from_json(text: str, folder: str) -> Ingestion:
    request = json.loads(text)
    return Ingestion(
        config=IngestConfig.model_validate(request["config"]),
        files=tuple(SourceFile(**file) for file in request["files"]),
        splits=tuple(request["splits"]),
        columns=tuple(RawColumn(**column) for column in request["columns"]),
        folder=folder,
        gzip=request["gzip"],
    )
