"""The Evaluator on real models, real records and TFMA: what is measured, what is judged, what is blessed.

The models answer with a column of the row, so that every error is known by hand.
"""

from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact_utils, standard_artifacts
from tfx.utils import json_utils, proto_utils

from components.evaluation.component import Executor
from components.evaluation.config import EvaluationConfig
from components.evaluation.eval_config import eval_config
from components.evaluation.measured import FILE, read_measured
from components.evaluation.verdict import read_verdict
from preprocessing.outputs import EXAMPLE_WEIGHT, LABEL, SPAN

pytestmark = pytest.mark.integration
# Zone -> rows, and what the new and the last blessed model are off by.
ZONES = {"good": (150, 1.0, 1.0), "worse": (120, 3.0, 1.0), "tiny": (10, 100.0, 1.0)}
NEWEST = 7
TOGETHER = (150 * 1 + 120 * 3 + 10 * 100) / 280
SLICES = {"not_worse_than": "blessed", "tolerance": 1, "min_examples": 100}


def rows():
    """Yields zone, span, label, and the answers of both models; the newest span has every second row."""
    for zone, (count, new, old) in ZONES.items():
        for i in range(count):
            yield zone, NEWEST - i % 2, float(i % 5), i % 5 + new, i % 5 + old


def example(zone, span, label, new, old):
    numbers = {LABEL: label, "new": new, "old": old, "span_of_row": span}
    features = {name: tf.train.Feature(float_list=tf.train.FloatList(value=[v])) for name, v in numbers.items()}
    features["zone"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[zone.encode()]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


class Answers(tf.Module):
    """A model whose score is a column."""

    def __init__(self, column):
        super().__init__()
        self._column = column

    def _read(self, examples, name):
        return tf.io.parse_example(examples, {name: tf.io.FixedLenFeature([1], tf.float32)})[name]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        return {"scores": self._read(examples, self._column)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def transform(self, examples):
        label = self._read(examples, LABEL)
        span = tf.cast(self._read(examples, "span_of_row"), tf.int64)
        return {LABEL: label, EXAMPLE_WEIGHT: tf.ones_like(label), SPAN: span}


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory):
    """Returns `evaluate(threshold of mae)`: the evaluation artifact, whether the model is blessed, and its config."""
    folder = tmp_path_factory.mktemp("evaluated")
    examples = standard_artifacts.Examples()
    examples.uri, examples.split_names = str(folder / "examples"), artifact_utils.encode_split_names(["eval"])
    examples.span = NEWEST
    (folder / "examples" / "Split-eval").mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "examples" / "Split-eval" / "rows")) as writer:
        for row in rows():
            writer.write(example(*row))
    models = {}
    for number, column in enumerate(("new", "old"), start=1):
        model = standard_artifacts.Model()
        model.uri, model.id = str(folder / column), number
        made = Answers(column)
        signatures = {"serving_default": made.serve, "transform_features": made.transform}
        tf.saved_model.save(made, f"{model.uri}/Format-Serving", signatures=signatures)
        models[column] = model

    def run(threshold, name):
        config = EvaluationConfig.model_validate({"slices": [["zone"]], "thresholds": {"mae": threshold}})
        evaluation, blessing = standard_artifacts.ModelEvaluation(), standard_artifacts.ModelBlessing()
        evaluation.uri, blessing.uri = str(folder / name / "evaluation"), str(folder / name / "blessing")
        context = base_beam_executor.BaseBeamExecutor.Context(
            beam_pipeline_args=["--runner=DirectRunner"], tmp_dir=str(folder / "tmp"), unique_id="1"
        )
        properties = {
            "eval_config": proto_utils.proto_to_json(eval_config(config, spanned=True)),
            "evaluated": config.model_dump_json(),
            "example_splits": json_utils.dumps(None),
            "fairness_indicator_thresholds": json_utils.dumps(None),
        }
        Executor(context).Do(
            {"examples": [examples], "model": [models["new"]], "baseline_model": [models["old"]]},
            {"evaluation": [evaluation], "blessing": [blessing]},
            properties,
        )
        blessed = blessing.get_int_custom_property("blessed") == 1
        marks = {path.name for path in (folder / name / "blessing").iterdir()}
        assert marks == {"BLESSED" if blessed else "NOT_BLESSED"}
        return evaluation.uri, blessed, config

    return run


def test_a_slice_that_is_worse_than_the_last_blessed_model_holds_the_model_up_and_a_tiny_one_does_not(evaluate):
    uri, blessed, config = evaluate({"max": 10, "slices": SLICES}, "worse")
    verdict = read_verdict(uri, config, blessed=blessed)
    assert not blessed
    assert verdict.reasons == (
        "on the slice zone worse (120 examples) mae is 3.0000, the last blessed model has 1.0000 on the same rows: "
        "worse by over 1 (evaluation.thresholds.mae.slices.tolerance)",
    )
    assert [(m.value, m.baseline, m.held) for m in verdict.metrics] == [(pytest.approx(TOGETHER), 1.0, True)]
    assert verdict.examples == 280 and verdict.newest_examples == 140
    assert verdict.notes == ("mae: of 3 slices, 1 have fewer than 100 examples; those are not judged",)


def test_every_slice_is_shown_on_the_window_and_on_the_newest_span(evaluate):
    uri, blessed, config = evaluate({"slices": {**SLICES, "tolerance": 2}}, "held")
    assert blessed
    found = {(one.name, one.newest): one for one in read_verdict(uri, config, blessed=blessed).slices}
    for zone, (count, new, old) in ZONES.items():
        for newest, rows_of_it in ((False, count), (True, count // 2)):
            one = found.pop((f"zone {zone}", newest))
            assert one.examples == rows_of_it
            assert (one.values["mae"], one.baseline["mae"]) == (pytest.approx(new), pytest.approx(old))
    assert not found


def test_the_newest_span_is_judged_by_itself(evaluate):
    uri, blessed, config = evaluate({"newest_span": {"slices": {"max": 2, "min_examples": 60}}}, "newest")
    reasons = read_verdict(uri, config, blessed=blessed).reasons
    assert not blessed and len(reasons) == 1
    assert "on the slice zone worse of the newest span (60 examples) mae is 3.0000" in reasons[0]


def test_what_is_read_without_tfma_is_what_tfma_wrote(evaluate):
    uri, _, _ = evaluate({"max": 1}, "read")
    recorded = {}
    for record in tfma.load_metrics(uri):
        columns = {key.column: key.bytes_value.decode() for key in record.slice_key.single_slice_keys}
        for item in record.metric_keys_and_values:
            if not item.key.is_diff:
                place = columns.get("zone"), SPAN in columns, item.key.model_name, item.key.name
                recorded[place] = item.value.double_value.value
    written = read_measured(uri)
    assert {
        (rows.keys[0][1] if rows.keys else None, rows.newest, model, metric): value
        for rows in written
        for model, values in (("candidate", rows.values), ("baseline", rows.baseline))
        for metric, value in values.items()
    } == recorded
    # An earlier release wrote no such file.
    Path(uri, FILE).unlink()
    assert read_measured(uri) == written
