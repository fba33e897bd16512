"""The Parity component."""

import json
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from tfx import types
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts
from tfx.utils import path_utils

from components.artifacts import ParityReport
from components.ingest.component import by_span
from components.ingest.manifest import read_manifest
from components.parity.collect import Features, from_blocks, raw_records, through, through_raw
from components.parity.compare import Compared, Tolerance, check, compare, report_json
from components.transform.component import split_files
from preprocessing.columns import serving_columns
from preprocessing.config import PreprocessingConfig
from preprocessing.errors import UserError
from preprocessing.outputs import LABEL, ROW_ID, SPAN
from preprocessing.progress import report as progress
from trainer.input_fn import decoder, read_blocks
from trainer.inputs import transformed_outputs
from trainer.placement import InModel, placement_of
from trainer.scores import SCORES_FILE, read_scores
from trainer.signatures import SERVING_DEFAULT, SERVING_RAW, TRANSFORM_FEATURES

SPLIT = "eval"
_READERS = 2


@component
def Parity(
    examples: InputArtifact[list[standard_artifacts.Examples]],
    ready: InputArtifact[list[standard_artifacts.Examples]],
    transform_graph: InputArtifact[standard_artifacts.TransformGraph],
    model: InputArtifact[standard_artifacts.Model],
    model_run: InputArtifact[standard_artifacts.ModelRun],
    report: OutputArtifact[ParityReport],
    preprocessing: Parameter[str],
    options: Parameter[str],
) -> None:
    """Computes features and predictions of eval rows in every way there is, and fails if two differ.

    * what training computed with (read from `ready` as Transform wrote it, made by the input function or made in the
      model, each feature in its place) = the export's `transform_features` on the raw rows, feature by feature;
    * what the trained model said of them = the export's `serving_default` on the raw rows;
    * `serving_default` (serialized examples) = `serving_raw` (named columns), output by output.

    `report` holds `parity.json` and carries `rows`.
    """
    config = PreprocessingConfig.model_validate_json(preprocessing)
    limit, tolerance = _options(options)
    examples = by_span(examples)
    records = raw_records(split_files(examples, SPLIT), limit)
    export = tf.saved_model.load(path_utils.serving_model_path(model.uri))
    progress(0, len(records), "rows", "export")
    exported = through(export.signatures[TRANSFORM_FEATURES], records)
    exported.pop(SPAN)  # only tells rows apart; it is no feature
    row_names = _row_names(examples, exported[ROW_ID].tolist())
    progress(len(records) // 2, len(records), "rows", "training input")
    trained_on = _training_input(config, ready, transform_graph, exported)
    compared = compare(trained_on, exported, pair="training input = export", row_names=row_names, tolerance=tolerance)
    compared += _compare_predictions(export, records, config, model_run.uri, exported[ROW_ID], row_names, tolerance)
    with fileio.open(f"{report.uri}/parity.json", "w") as f:
        f.write(report_json(compared))
    report.set_int_custom_property("rows", len(records))
    check(compared)
    progress(len(records), len(records), "rows")


def _options(text: str) -> tuple[int | None, Tolerance]:
    options = json.loads(text)
    return (None if options["rows"] == "all" else options["rows"]), Tolerance(options["rtol"], options["atol"])


def _training_input(
    config: PreprocessingConfig, ready: Sequence[types.Artifact], transform_graph: types.Artifact, exported: Features
) -> Features:
    tft_output = tft.TFTransformOutput(transform_graph.uri)
    placement = placement_of(config, transformed_outputs(config, tft_output))
    classes = exported[LABEL].shape[1] if exported[LABEL].ndim == 2 else 0
    decode = decoder(tft_output, placement, [*placement.read, ROW_ID], classes)
    blocks = iter(read_blocks(split_files(by_span(ready), SPLIT), decode, _READERS))
    if placement.in_model:
        blocks = map(InModel(placement, tft_output).complete, blocks)
    return from_blocks(blocks, exported[ROW_ID])


def _compare_predictions(
    export: tf.Module,
    records: list[bytes],
    config: PreprocessingConfig,
    model_run: str,
    row_ids: np.ndarray,
    row_names: list[str],
    tolerance: Tolerance,
) -> list[Compared]:
    as_examples = through(export.signatures[SERVING_DEFAULT], records)
    as_columns = through_raw(export.signatures[SERVING_RAW], records, serving_columns(config))
    trained, rows = _scores_in_memory(model_run, row_ids)
    return [
        *compare(
            trained,
            {"scores": as_examples["scores"][rows]},
            pair="trained model = export",
            row_names=[row_names[row] for row in rows],
            tolerance=tolerance,
        ),
        *compare(
            as_examples, as_columns, pair=f"{SERVING_DEFAULT} = {SERVING_RAW}", row_names=row_names, tolerance=tolerance
        ),
    ]


def _scores_in_memory(model_run: str, row_ids: np.ndarray) -> tuple[Features, list[int]]:
    """Returns the trained model's own scores, and for each the place of its row among `row_ids`."""
    place = {row: i for i, row in enumerate(row_ids.tolist())}
    scored = read_scores(f"{model_run}/{SCORES_FILE}")
    known = [i for i, row in enumerate(scored["row_id"].tolist()) if row in place]
    if not known:
        raise UserError("parity: none of the rows that the Trainer scored is among the eval rows compared.")
    return {"scores": scored["scores"][known]}, [place[scored["row_id"][i]] for i in known]


def _row_names(examples: Sequence[types.Artifact], row_ids: list[int]) -> list[str]:
    manifests = [read_manifest(artifact.uri) for artifact in examples]
    return [next(m for m in manifests if m.holds(row)).locate(row) for row in row_ids]
