"""The column that makes a model suspiciously good is named, and a model without such a column is not suspected."""

import keras
import numpy as np
import pytest

from fullpass.preprocessing.columns.outputs import outputs
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.fit.sampled_rows import SampledRows
from fullpass.trainer.insight.insight import measure_alone
from fullpass.trainer.insight.words import too_good_words
from fullpass.trainer.models.model_inputs import ModelInput
from fullpass.trainer.models.weight_semantics import Network

PAID = {"feature": "paid", "column": "paid_at", "value": 0.9998, "rows": 900}
RELIED = {"feature": "b", "importance": 0.5, "reach": 0.1}
CHANCE = {"feature": "c", "importance": 0.05, "reach": 0.1}
RARE = {"classes": {"no": 9990, "yes": 10}}


@pytest.mark.parametrize(
    ("values", "record", "says"),
    [
        ({"auc": 0.9996}, {"alone": [PAID]}, "too good: auc is 0.9996. Look at column paid_at: feature paid alone has"),
        ({"auc": 0.95, "auc_pr": 1.0}, {"alone": [PAID]}, "too good: auc_pr is 1.0000"),
        ({"explained": 0.9995}, {"alone": [], "importance": [RELIED, CHANCE]}, "by importance: b (0.5000). If"),
        ({"r2": 0.9991}, {"alone": [{**PAID, "value": 0.7}], "importance": [RELIED]}, "by importance: b (0.5000)"),
        ({"multiclass_accuracy": 0.9995}, {"alone": [PAID], "classes": {"a": 60, "b": 40}}, "multiclass_accuracy is"),
        ({"auc": 0.9989}, {"alone": [PAID]}, ""),
        ({"auc": float("nan")}, {"alone": [PAID]}, ""),
        ({"auc": 0.9999}, {"alone": [], "importance": [CHANCE]}, ""),  # no evidence
        ({"auc": 0.9999}, {}, ""),
        ({"accuracy": 0.9991}, {"alone": [PAID], **RARE}, ""),  # the most frequent class alone has 0.999
        ({"accuracy": 0.99995}, {"alone": [PAID], **RARE}, "accuracy is 1.0000"),
    ],
)
def test_a_metric_that_is_too_good_is_said_with_its_evidence(values, record, says):
    words = too_good_words(values, record, guessed=("accuracy", "multiclass_accuracy"))
    assert says in words and bool(words) == bool(says)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("task", "unit"), [("binary", 1), ("multiclass", 1), ("regression", 1), ("regression", 1e20), ("regression", 1e-25)]
)
def test_the_feature_that_gives_the_label_away_is_found_even_if_it_has_a_twin(task, unit):
    rng = np.random.default_rng(1)
    config = PreprocessingConfig.model_validate(
        {
            "features": {"a": "number", "leak": {"type": "number", "column": "paid at"}, "twin": "number"},
            "label": {"name": "y", "task": task},
        }
    )
    inputs = {o.name: ModelInput(keras.Input((), name=f"in_{o.name}"), o, width=1) for o in outputs(config)}

    def rows():
        labels = rng.normal(1e6, 1, 2000) if task == "regression" else rng.integers(0, 2, 2000) * 1.0
        if task == "multiclass":
            labels = rng.integers(0, 12, 2000)
        leak = (labels * 7 % 12 if task == "multiclass" else 3 - 2 * labels).astype(np.float32)
        values = {"a": rng.normal(size=2000) + labels, "leak": leak, "twin": -leak}
        features = {item.keras_input.name: values[item.output.feature] for item in inputs.values()}
        return SampledRows(features, labels * unit, np.ones(2000, np.float32))

    found = measure_alone(Network(None, inputs, config, ()), rows(), rows(), task)
    assert [one["feature"] for one in found][2] == "a" and {one["feature"] for one in found[:2]} == {"leak", "twin"}
    assert {one["column"] for one in found} == {"a", "paid at", "twin"} and found[1]["value"] >= 0.99
