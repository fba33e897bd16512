"""Models that return a column of the row as score, so every error is known exactly; and the Evaluator run on them."""

from pathlib import Path

import tensorflow as tf
from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact_utils, standard_artifacts

from fullpass.components.evaluation.component import EvaluatorExecutor
from fullpass.components.ingest.writing.manifest import COUNTS, RowCounts
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, SPAN
from fullpass.preprocessing.config import PreprocessingConfig
from tests import record_files


def example(numbers, texts):
    """Returns a serialized example. numbers: column -> numbers of the row. texts: column -> text, or None."""
    return record_files.example({name: list(map(float, of_row)) for name, of_row in numbers.items()} | texts)


class Answers(tf.Module):
    """A model whose score is a column. Labels, weights, row ids and spans come from the columns of these names.

    With `decides`, names of two classes and a threshold, it also predicts one of them.
    """

    def __init__(self, column, *, classes=1, labels=1, label_dtype=tf.float32, decides=None):
        super().__init__()
        self._decides = decides
        self._column, self._classes, self._labels, self._dtype = column, classes, labels, label_dtype

    def _read(self, examples, name, width=1):
        return tf.io.parse_example(examples, {name: tf.io.FixedLenFeature([width], tf.float32)})[name]

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        scores = self._read(examples, self._column, self._classes)
        if self._decides is None:
            return {"scores": scores}
        names, scores = tf.constant(self._decides[:2]), scores[:, 0]
        classes = tf.broadcast_to(names, [tf.size(scores), 2])
        prediction = tf.gather(names, tf.cast(scores > self._decides[2], tf.int32))
        return {"scores": scores, "prediction": prediction, "classes": classes}

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def labels(self, examples):
        label = tf.cast(self._read(examples, LABEL, self._labels), self._dtype)
        numbers = {name: tf.cast(self._read(examples, name), tf.int64)[:, 0] for name in (ROW_ID, SPAN)}
        weight = self._read(examples, EXAMPLE_WEIGHT)
        return {LABEL: label if self._labels > 1 else label[:, 0], EXAMPLE_WEIGHT: weight[:, 0], **numbers}


def saved(model, folder, number):
    """Saves such a model in a folder and returns its Model artifact."""
    artifact = standard_artifacts.Model()
    artifact.uri, artifact.id = str(folder), number
    # TFMA takes labels and weights from the second; ours reads them from the examples.
    signatures = {"serving_default": model.serve, "transform_features": model.labels}
    tf.saved_model.save(model, f"{artifact.uri}/Format-Serving", signatures=signatures)
    return artifact


def written(rows, folder, newest, files=2):
    """Writes serialized rows to several files of one split, and returns the Examples artifact."""
    artifact = standard_artifacts.Examples()
    artifact.uri, artifact.split_names, artifact.span = str(folder), artifact_utils.encode_split_names(["eval"]), newest
    artifact.set_string_custom_property(COUNTS, RowCounts(written={"eval": len(rows)}).to_json())
    Path(folder, "Split-eval").mkdir(parents=True)
    for number in range(files):
        record_files.write_records(Path(folder, "Split-eval", f"rows-{number}"), rows[number::files])
    return artifact


def context(folder):
    """Returns an executor context with its temporary files in a folder."""
    return base_beam_executor.BaseBeamExecutor.Context(
        beam_pipeline_args=["--runner=DirectRunner"], tmp_dir=f"{folder}/tmp", unique_id="1"
    )


def outputs(folder):
    """Returns the output artifacts of an Evaluator."""
    evaluation, blessing = standard_artifacts.ModelEvaluation(), standard_artifacts.ModelBlessing()
    evaluation.uri, blessing.uri = f"{folder}/evaluation", f"{folder}/blessing"
    for artifact in (evaluation, blessing):
        Path(artifact.uri).mkdir(parents=True)
    return {"evaluation": [evaluation], "blessing": [blessing]}


READS = PreprocessingConfig.model_validate(
    {"label": {"name": "fare", "task": "regression"}, "features": {"zone": {"type": "category"}, "miles": "number"}}
)


def evaluate(config, examples, models, folder, *, options):
    """Runs the Evaluator on models, the candidate first, for a pipeline that reads READS; returns its outputs."""
    inputs = {"examples": [examples], **dict(zip(("model", "baseline_model"), ([m] for m in models), strict=False))}
    made = outputs(folder)
    parameters = {"evaluated": config.model_dump_json(), "options": options, "preprocessing": READS.model_dump_json()}
    EvaluatorExecutor(context(folder)).Do(inputs, made, parameters)
    return made
