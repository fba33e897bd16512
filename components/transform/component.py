"""The Transform component: a custom full pass with the artifacts and the contract of TFX's Transform."""

import glob
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tensorflow_metadata.proto.v0 import schema_pb2
from tfx import types
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from fullpass.base.errors import UserError
from fullpass.components.beam_component import Artifacts, BeamComponent
from fullpass.components.ingest.component import FINGERPRINT, LABEL, by_span, left_out_of, rows_of_split
from fullpass.components.ingest.config import RecordsConfig
from fullpass.components.ingest.writing.manifest import COUNTS, RowCounts, left_out_hint
from fullpass.components.internals.tfx_internals import artifact_utils, base_beam_executor, io_utils, path_utils
from fullpass.preprocessing.apply.stable_ids import FOLDER, BaseModelRef
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, raw_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.export.export_files import verify_export

ANALYSIS = "analysis"
"""Custom property of the transform graph of a window: the origin of the statistics of each span, as JSON."""


class TransformExecutor(base_beam_executor.BaseBeamExecutor):
    """Runs the full pass and describes the transformed examples."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        # TF Transform imports Keras, which is not needed to build a pipeline.
        from fullpass.components.transform.analyze_spans import TrainSpan
        from fullpass.components.transform.full_pass import ANALYZED_SPLIT, FullPass, finish_full_pass, run_full_pass
        from fullpass.preprocessing.apply.graph_optimizer import optimized_for
        from fullpass.trainer.export.joined_tables import copy_tables

        examples = by_span(input_dict["examples"])
        graph = artifact_utils.get_single_instance(output_dict["transform_graph"])
        transformed = output_dict["transformed_examples"][0] if output_dict.get("transformed_examples") else None
        splits = artifact_utils.decode_split_names(examples[0].split_names)
        rows = {split: rows_of_split(examples, split) for split in splits}
        _check_rows(rows, examples)
        options = json.loads(exec_properties["options"])
        preprocessing = PreprocessingConfig.model_validate_json(exec_properties["preprocessing"])
        schema = read_schema(artifact_utils.get_single_instance(input_dict["schema"]))
        if preprocessing.whole:  # a request would need whatever a function of TFX gets
            kept = [column for column in schema.feature if column.name != RAW_ROW_ID]
            del schema.feature[:]
            schema.feature.extend(kept)
        else:
            check_kinds(schema, preprocessing)
        full_pass = FullPass(
            preprocessing=preprocessing,
            schema=schema,
            examples={split: split_files(examples, split) for split in splits},
            rows=rows,
            graph=graph.uri,
            transformed=transformed.uri if transformed else None,
            layout=RecordsConfig(**options["records"]).layout(gzip=options["gzip"]),
            temporary=self._get_tmp_dir(),
            spans=tuple(
                TrainSpan(
                    label=span.get_string_custom_property(LABEL),
                    fingerprint=span.get_string_custom_property(FINGERPRINT),
                    files=tuple(split_files([span], ANALYZED_SPLIT)),
                )
                for span in examples
            ),
            cache=options["cache"],
            base_model=BaseModelRef(
                base=serving_model(input_dict.get("base_model")), ledger=f"{graph.uri}/{FOLDER}", span=examples[-1].span
            ),
        )
        with optimized_for(sum(rows.values()), preprocessing), self._make_beam_pipeline() as pipeline:
            analysis = run_full_pass(full_pass, pipeline)
        if analysis is not None:
            graph.set_string_custom_property(ANALYSIS, analysis.to_json())
        written = finish_full_pass(full_pass)
        copy_tables(examples[-1].uri, graph.uri)  # all spans were joined with the same tables
        if transformed is not None:
            transformed.split_names = examples[0].split_names
            transformed.span = examples[-1].span
            transformed.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
            transformed.set_string_custom_property(COUNTS, RowCounts(written=written).to_json())


def split_files(examples: Sequence[types.Artifact], split: str) -> list[str]:
    """Returns the TFRecord files of one split, in the order of the artifacts and sorted within each artifact."""
    return [
        file for artifact in examples for file in sorted(fileio.glob(f"{glob.escape(artifact.uri)}/Split-{split}/*"))
    ]


def serving_model(models: Sequence[types.Artifact] | None) -> str | None:
    """Returns the SavedModel folder of the only model; None if there is no model, as in a first run.

    Raises:
        DamagedState: A file of the SavedModel is damaged or missing.
    """
    if not models:
        return None
    export = path_utils.serving_model_path(models[0].uri)
    verify_export(export)
    return export


def _check_rows(rows: Mapping[str, int], examples: Sequence[types.Artifact]) -> None:
    for split, count in rows.items():
        if not count:
            counts = ", ".join(f"{name} {n:,}" for name, n in rows.items())
            raise UserError(
                f"data.split: no row of the window fell into split {split!r} ({counts})."
                f"{left_out_hint(left_out_of(examples))} Change the ratios or values, or widen data.window."
            )


def check_kinds(schema: schema_pb2.Schema, config: PreprocessingConfig) -> None:
    """Lets every column be missing, as features need it, and checks that a schema of SchemaGen has their types.

    Raises:
        UserError: A column holds integers: Ingest writes numbers as float32, and ids as text.
    """
    columns = raw_columns(config)
    for column in schema.feature:
        column.ClearField("shape")
        if column.name in columns and column.type == schema_pb2.INT:
            kind = columns[column.name].type
            raise UserError(
                f"column {column.name!r}: the examples hold integers, and the features read a {kind}, as Ingest writes "
                "it. Use Ingest, which converts it, or Transform with your preprocessing_fn."
            )


def read_schema(artifact: types.Artifact) -> schema_pb2.Schema:
    """Returns the schema of a Schema artifact."""
    return read_schema_file(f"{artifact.uri}/schema.pbtxt")


def read_schema_file(path: str) -> schema_pb2.Schema:
    """Returns the schema of a file."""
    return io_utils.SchemaReader().read(path)


class Transform(
    BeamComponent,
    executor=TransformExecutor,
    parameters=("preprocessing", "options", "code"),
    inputs={
        "examples": standard_artifacts.Examples,
        "schema": standard_artifacts.Schema,
        "base_model": standard_artifacts.Model,
    },
    outputs={
        "transform_graph": standard_artifacts.TransformGraph,
        "transformed_examples": standard_artifacts.Examples,
    },
    optional=("base_model", "transformed_examples"),
):
    """Analyzes the train split, and applies the transform graph to all splits.

    Outputs: `transform_graph`; `transformed_examples` if `materialize`, with custom properties rows_<split>.
    """

    def __init__(
        self,
        preprocessing: PreprocessingConfig,
        *,
        examples: types.BaseChannel,
        schema: types.BaseChannel,
        materialize: bool,
        records: RecordsConfig,
        gzip: bool,
        code: str,
        cache: str | None = None,
        base_model: types.BaseChannel | None = None,
    ):
        """Constructs the component.

        Args:
            materialize: Whether to write transformed examples in addition to the graph.
            records: Layout of the files of transformed examples; these keep the order of the raw examples.
            cache: Folder of the accumulator states of each span; None for a source without spans.
            code: Digest of user functions in the graph, which changes TFX's cache key when they change.
            base_model: The model whose vocabulary ids are kept stable.
        """
        options = {"records": records.model_dump(exclude={"shuffle", "seed"}), "gzip": gzip, "cache": cache}
        super().__init__(
            preprocessing=preprocessing.model_dump_json(),
            options=json.dumps(options),
            code=code,
            examples=examples,
            schema=schema,
            base_model=base_model,
            **({} if materialize else {"transformed_examples": None}),
        )
