"""Compares the Evaluator with TFX's own, which runs TFMA, on the same models and records: metrics, slices, verdicts.

The tolerances are those in docs/evaluation.md.
"""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from tfx.components.evaluator import executor as stock
from tfx.utils import json_utils, proto_utils

from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.judge_metrics import judge_metrics
from fullpass.components.evaluation.measure.measured_metrics import read_measured, text_of
from fullpass.components.evaluation.measure.metrics import METRICS
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, SPAN
from tests.components.evaluation.answering_model import Answers, context, evaluate, example, outputs, saved, written
from tests.components.evaluation.tfma_config import TFMA_CLASSES, eval_config

pytestmark = pytest.mark.integration
ROWS, NEWEST, CLASSES = 300, 9, 3
TOLERANCES = {"auc": 1e-3, "auc_pr": 1e-3}
"""Absolute tolerances for slices of fifty rows, where one pair of scores in a bucket has a large effect. All other
metrics have a relative tolerance of 1e-6, because Keras and TFMA compute some in float32."""
COLUMNS = {"zone": "string", "hour": "number"}
THRESHOLDS = {
    "binary": {"auc": {"min": 0.99, "not_worse_than": "blessed"}, "log_loss": {"newest_span": {"max": 0.1}}},
    "multiclass": {"multiclass_accuracy": {"min": 0.01, "not_worse_than": "blessed", "tolerance": 1.0}},
    "multilabel": {"auc": {"min": 0.01}},
    "regression": {"mse": {"max": 100}, "r2": {"newest_span": {"min": 0.999, "not_worse_than": "blessed"}}},
}
KINDS = {
    "binary": {},
    "multiclass": {"classes": CLASSES, "label_dtype": tf.int64},
    "multilabel": {"classes": CLASSES, "labels": CLASSES},
    "regression": {},
}


def said(task, rng):
    """Returns the label of a row and the scores of two models."""
    if task == "regression":
        label = float(rng.integers(0, 9))  # includes 0, which has no relative error
        return [label], [label + rng.normal()], [label * 2 + rng.normal()]
    if task == "multiclass":
        label = int(rng.integers(0, CLASSES))
        scores = [rng.dirichlet(1 + sharp * np.eye(CLASSES)[label]) for sharp in (3, 2)]
        return [float(label)], *(score.tolist() for score in scores)
    width = CLASSES if task == "multilabel" else 1
    labels = (rng.random(width) < 0.4).astype(float)
    return labels.tolist(), *(rng.beta(1 + sharp * labels, 2).tolist() for sharp in (2, 1))


def rows(task):
    """Yields examples with weights, some of them 0, and columns with missing values in some rows."""
    rng = np.random.default_rng(len(task))
    for i in range(ROWS):
        label, new, old = said(task, rng)
        weight = float(rng.integers(0, 4)) / 2
        numbers = {LABEL: label, "new": new, "old": old, EXAMPLE_WEIGHT: [weight], ROW_ID: [i], SPAN: [NEWEST - i % 2]}
        if i % 7:
            numbers["hour"] = [float(i % 2)]
        yield example(numbers, {"zone": ("east", "west", None)[i % 3]})


@pytest.fixture(
    scope="module",
    params=[
        "binary",
        *(pytest.param(task, marks=pytest.mark.long) for task in ("multiclass", "multilabel", "regression")),
    ],
)
def both(request, tmp_path_factory):
    """Outputs of both Evaluators, and the names of all metrics of the task."""
    task, folder = request.param, tmp_path_factory.mktemp(request.param)
    names = tuple(name for name, metric in METRICS.items() if task in metric.tasks and name in TFMA_CLASSES)
    config = EvaluationConfig.model_validate(
        {"metrics": names, "slices": [["zone"], ["zone", "hour"]], "thresholds": THRESHOLDS[task]}
    )
    examples = written(list(rows(task)), folder / "examples", NEWEST)
    models = [saved(Answers(c, **KINDS[task]), folder / c, n) for n, c in enumerate(("new", "old"), start=1)]
    ours = evaluate(
        config, examples, models, folder / "ours", options=json.dumps({"columns": COLUMNS, "spanned": True})
    )
    theirs = outputs(folder / "theirs")
    properties = {
        "eval_config": proto_utils.proto_to_json(eval_config(config, NEWEST)),
        "example_splits": json_utils.dumps(None),
        "fairness_indicator_thresholds": json_utils.dumps(None),
    }
    inputs = {"examples": [examples], "model": models[:1], "baseline_model": models[1:]}
    stock.Executor(context(folder)).Do(inputs, theirs, properties)
    return ours, theirs, names, THRESHOLDS[task]


def theirs_of(made, model):
    """Returns slice -> metric -> value, as TFX's own Evaluator wrote them."""
    result = tfma.load_eval_result(made["evaluation"][0].uri, model_name=model)
    return {
        tuple((column, value if isinstance(value, str) else text_of(value)) for column, value in key): {
            name: float(value["doubleValue"]) for name, value in metrics[""][""].items()
        }
        for key, metrics in result.slicing_metrics
    }


def ours_of(made, model):
    """Returns slice -> metric -> value, from measured.json."""
    found = {}
    for rows in read_measured(made["evaluation"][0].uri):
        span = ((SPAN, str(NEWEST)),) if rows.newest else ()
        found[tuple(sorted((*rows.keys, *span)))] = rows.values if model == "candidate" else rows.baseline
    return found


@pytest.mark.parametrize("model", ["candidate", "baseline"])
def test_every_metric_of_every_slice_is_equal(both, model):
    ours, theirs, names, _ = both
    left, right = ours_of(ours, model), theirs_of(theirs, model)
    # All rows, two zones, four pairs of zone and hour; the newest span has rows of one hour only.
    assert left.keys() == right.keys() and len(left) == (1 + 2 + 4) + (1 + 2 + 2)
    for key, values in right.items():
        for name in names:
            tolerance = {"abs": TOLERANCES[name]} if name in TOLERANCES else {"rel": 1e-6}
            assert left[key][name] == pytest.approx(values[name], **tolerance), (key, name)


def test_the_blessing_is_the_same(both):
    ours, theirs, *_ = both
    blessings = [made["blessing"][0] for made in (ours, theirs)]
    for name in ("current_model", "baseline_model"):
        assert len({blessing.get_string_custom_property(name) for blessing in blessings}) == 1
        assert len({blessing.get_int_custom_property(f"{name}_id") for blessing in blessings}) == 1
    assert len({blessing.get_int_custom_property("blessed") for blessing in blessings}) == 1


def test_the_same_bounds_on_all_rows_fail(both):
    ours, theirs, config = both[0], both[1], EvaluationConfig.model_validate({"thresholds": both[3]})
    verdict = judge_metrics(read_measured(ours["evaluation"][0].uri), config)
    failed = {(False, m.metric) for m in verdict.metrics if not m.passed}
    failed |= {(True, m.metric) for m in verdict.newest if not m.passed}
    validations = tfma.load_validation_result(theirs["evaluation"][0].uri)
    assert failed == {
        (bool(one.slice_key.single_slice_keys), failure.metric_key.name)
        for one in validations.metric_validations_per_slice
        for failure in one.failures
    }
