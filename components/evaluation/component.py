"""The Evaluator component: measures a model and the last blessed one on the eval split, and blesses or refuses it.

The newest span is derived from the examples, which are part of the cache key anyway. It is no parameter: a parameter
would have to be known when the pipeline is compiled, and a Kubeflow package is compiled once for all windows.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from tfx import types
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from fullpass.base.files import read_json
from fullpass.base.json_text import to_json_text
from fullpass.components.accumulate import AccumulateFiles
from fullpass.components.beam_component import Artifacts, BeamComponent
from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.judge_metrics import judge_metrics
from fullpass.components.evaluation.judge.verdict import FILE as VERDICT_FILE
from fullpass.components.evaluation.judge.verdict import verdict_json
from fullpass.components.evaluation.measure.class_results import FILE as CLASSES_FILE
from fullpass.components.evaluation.measure.forecast_baselines import baselines_of
from fullpass.components.evaluation.measure.measure_rows import measured_of
from fullpass.components.evaluation.measure.measured_metrics import ALWAYS_MEASURED, FILE, measured_json, read_measured
from fullpass.components.evaluation.measure.score_curves import FILE as CURVES_FILE
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.evaluation.measure.slice_states import SliceState
from fullpass.components.evaluation.own_checks import mark
from fullpass.components.evaluation.shown.shown_files import DEPENDENCE_FILE, ERRORS_FILE, TEXTS_FILE, regression_errors
from fullpass.components.ingest.component import rows_of_split, with_rows
from fullpass.components.ingest.writing.manifest import COUNTS
from fullpass.components.ingest.writing.record_writer import PENDING
from fullpass.components.internals.tfx_internals import artifact_utils, base_beam_executor
from fullpass.components.transform.component import serving_model, split_files
from fullpass.preprocessing.columns.raw_columns import RawColumn, raw_columns, span_in_row_ids
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.export.export_files import read_description
from fullpass.trainer.export.run_provenance import TRAINING_FILE

if TYPE_CHECKING:
    from fullpass.components.evaluation.measure.score_rows import EvaluateFiles

SPLIT = "eval"
_KINDS = {"number": "a number", "string": "text", "vector": "a vector"}


class EvaluatorExecutor(base_beam_executor.BaseBeamExecutor):
    """Runs the evaluation on Beam, writes the measurements, and sets the properties of the blessing."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        # This module imports TensorFlow's part for SavedModels, which is not needed to build a pipeline.
        from fullpass.components.evaluation.measure.other_model import LabelOutput, types_in
        from fullpass.components.evaluation.measure.score_rows import EvaluateFiles
        from fullpass.preprocessing.apply.graph_optimizer import optimized_for

        config = EvaluationConfig.model_validate_json(exec_properties["evaluated"])
        options = json.loads(exec_properties["options"])
        examples = input_dict["examples"]
        models = [artifact for name in ("model", "baseline_model") for artifact in (input_dict.get(name) or [])[:1]]
        newest = span_in_row_ids(max(artifact.span for artifact in with_rows(examples))) if options["spanned"] else None
        exports = [str(serving_model([model])) for model in models]
        preprocessing = PreprocessingConfig.model_validate_json(exec_properties["preprocessing"])
        label = options.get("label")
        not_measured = why_not_measured(exports[1], preprocessing, other=bool(label)) if len(exports) > 1 else ""
        if not_measured:
            models, exports = models[:1], exports[:1]
        metrics = tuple(dict.fromkeys((ALWAYS_MEASURED, *config.measured)))
        shown, record, baselines = None, {}, None
        if runs := input_dict.get("model_run"):
            record = read_json(f"{runs[0].uri}/{TRAINING_FILE}")
            shown, baselines = (preprocessing, record.get("importance", ())), baselines_of(preprocessing.label)
        accumulator = SliceAccumulator(metrics, config.slices, newest, len(models), baselines)
        evaluation, blessing = (
            artifact_utils.get_single_instance(output_dict[name]) for name in ("evaluation", "blessing")
        )
        files, rows = split_files(examples, SPLIT) or [""], rows_of_split(examples, SPLIT)
        columns = options["columns"]
        if columns and files[0] and not examples[0].get_string_custom_property(COUNTS):
            columns = types_in(files[0], columns)
        evaluate = EvaluateFiles(accumulator, exports, columns, rows, label and LabelOutput(**label))
        pending = f"{evaluation.uri}/{PENDING}"
        with optimized_for(rows, preprocessing), self._make_beam_pipeline() as pipeline:
            merged = pipeline | "Evaluate" >> AccumulateFiles([(file, ("",)) for file in files], evaluate, pending)
            write = beam.Map(
                partial(_write_results, evaluate), accumulator, evaluation.uri, shown, record, not_measured
            )
            _ = merged | beam.Values() | "Write" >> write
        fileio.rmtree(pending)
        verdict = judge_metrics(read_measured(evaluation.uri), config, record)
        _write(f"{evaluation.uri}/{VERDICT_FILE}", verdict_json(verdict))
        _describe(blessing, models, blessed=verdict.blessed)
        if not verdict.blessed:
            logging.warning("Not blessed:\n%s", "\n".join(verdict.reasons))


def _write_results(
    evaluate: "EvaluateFiles",
    state: SliceState,
    accumulator: SliceAccumulator,
    folder: str,
    shown: tuple[PreprocessingConfig, Sequence[Mapping[str, Any]]] | None,
    record: Mapping[str, Any],
    not_measured: str,
) -> None:
    """Writes the files of the evaluation, as the last step on Beam.

    Args:
        shown: Features and label, and the feature importances, to show the new model on a sample of the rows.
        record: The content of training.json.
        not_measured: Why the last blessed model is not measured.
    """
    _write(f"{folder}/{FILE}", measured_json(measured_of(accumulator, state, record, not_measured)))
    if curves := accumulator.curves(state):
        _write(f"{folder}/{CURVES_FILE}", to_json_text(curves))
    if classes := accumulator.classes(state):
        _write(f"{folder}/{CLASSES_FILE}", to_json_text(classes))
    if shown is not None:
        _write_shown(folder, evaluate, state.sample.records, *shown)


def _write_shown(
    folder: str,
    evaluate: "EvaluateFiles",
    sampled: Sequence[bytes],
    preprocessing: PreprocessingConfig,
    importance: Sequence[Mapping[str, Any]],
) -> None:
    # These modules import TensorFlow and Keras, which is not needed to build a pipeline.
    import tensorflow as tf

    from fullpass.components.evaluation.shown.forecast_times import forecast_times
    from fullpass.components.evaluation.shown.partial_dependence import dependence_of_export
    from fullpass.components.evaluation.shown.shown_texts import texts_of_export

    export = evaluate.exports[0]
    if dependence := dependence_of_export(export, sampled, preprocessing, importance):
        _write(f"{folder}/{DEPENDENCE_FILE}", to_json_text(dependence, indent=1))
    if preprocessing.label.task == "regression" and sampled:
        times = forecast_times(sampled, preprocessing)
        if errors := regression_errors(evaluate.scorer(tf.constant(sampled)).models[0], times):
            _write(f"{folder}/{ERRORS_FILE}", to_json_text(errors))
    if texts := texts_of_export(export, sampled, preprocessing):
        _write(f"{folder}/{TEXTS_FILE}", to_json_text(texts, indent=1))


def _write(path: str, text: str) -> None:
    with fileio.open(path, "w") as file:
        file.write(text)


def _describe(blessing: types.Artifact, models: Sequence[types.Artifact], *, blessed: bool) -> None:
    """Sets the properties and the file of the blessing for the Pusher and the resolver of the last blessed model."""
    for name, model in zip(("current_model", "baseline_model"), models, strict=False):
        blessing.set_string_custom_property(name, model.uri)
        blessing.set_int_custom_property(f"{name}_id", model.id)
    mark(blessing, blessed=blessed)


class Evaluator(
    BeamComponent,
    executor=EvaluatorExecutor,
    parameters=("evaluated", "options", "preprocessing"),
    inputs={
        "examples": standard_artifacts.Examples,
        "model": standard_artifacts.Model,
        "model_run": standard_artifacts.ModelRun,
        "baseline_model": standard_artifacts.Model,
    },
    outputs={"evaluation": standard_artifacts.ModelEvaluation, "blessing": standard_artifacts.ModelBlessing},
    optional=("baseline_model", "model_run"),
):
    """Measures a model and the last blessed one on the eval split, and blesses the model if it holds its thresholds.

    Outputs: `evaluation`, with `measured.json`, `verdict.json`, the curves and the partial dependence; `blessing`.
    """

    def __init__(
        self,
        config: EvaluationConfig,
        *,
        examples: types.BaseChannel,
        model: types.BaseChannel,
        model_run: types.BaseChannel | None,
        baseline_model: types.BaseChannel | None,
        preprocessing: PreprocessingConfig,
        columns: Mapping[str, RawColumn],
        spanned: bool,
        label: Mapping[str, Any] | None = None,
    ):
        """Constructs the component.

        Args:
            model_run: The record of the model's training, with the feature importances.
            label: The fields of a `LabelOutput`, for models that another Trainer has exported.
        """
        baselines = baselines_of(preprocessing.label)
        sliced = sorted({c for entry in config.slices for c in entry} | {*(baselines.columns if baselines else ())})
        options: dict[str, Any] = {"columns": {name: columns[name].type for name in sliced}, "spanned": spanned}
        if label is not None:
            options["label"] = dict(label)
        super().__init__(
            evaluated=config.model_dump_json(exclude={"decision"}),
            options=json.dumps(options),
            preprocessing=preprocessing.model_dump_json(),
            examples=examples,
            model=model,
            model_run=model_run,
            baseline_model=baseline_model,
        )


def why_not_measured(export: str, config: PreprocessingConfig, *, other: bool = False) -> str:
    """Returns why a model cannot be measured on the rows of a pipeline; "" if it can.

    The rows contain the columns that the pipeline reads. A model would take any other column as missing in every row,
    and seem worse than it is.

    Args:
        export: The folder of its SavedModel; one of another program does not describe its columns.
        config: Features and label of the pipeline.
        other: Whether the new model is of another Trainer.
    """
    described = read_description(export)
    if described is None:
        return ""
    if other != ("run_fn" in described):
        return "the last blessed model was trained by another Trainer, whose outputs have other names"
    told, label = f"{described['label']} ({described['task']})", f"{config.label.column} ({config.label.task})"
    if told != label:
        return f"the last blessed model predicts {told}, and this pipeline {label}"
    rows = raw_columns(config)
    if absent := [column["name"] for column in described["columns"] if column["name"] not in rows]:
        return f"the last blessed model reads {', '.join(absent)}, which this pipeline no longer reads"
    for name, kind in ((column["name"], column["type"]) for column in described["columns"]):
        if (here := rows[name].type) != kind:
            return f"the last blessed model reads {name} as {_KINDS[kind]}, and this pipeline as {_KINDS[here]}"
    return ""
