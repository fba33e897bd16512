"""Feature importance in a network with hundreds of inputs and given weights."""

import keras
import numpy as np
import pytest

from fullpass.preprocessing.columns.outputs import outputs
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.fit.sampled_rows import SampledRows
from fullpass.trainer.insight.permutation_importance import MAX_FEATURES, measure_importance
from fullpass.trainer.models.model_inputs import ModelInput
from fullpass.trainer.models.weight_semantics import Network

ROWS = 400


def _measured(features, unit):
    """Returns the importance of features; feature 7 has weight 2, feature 100 has weight 1, all others 0."""
    names = [f"x{i:03d}" for i in range(features)]
    config = PreprocessingConfig.model_validate(
        {"features": dict.fromkeys(names, {"type": "number"}), "label": {"name": "y", "task": "regression"}}
    )
    inputs = {o.name: ModelInput(keras.Input((), name=o.name), o, width=1) for o in outputs(config)}
    tensors = {item.name: item.keras_input for item in inputs.values()}
    head = keras.layers.Dense(1, use_bias=False)
    model = keras.Model(tensors, head(keras.ops.stack(list(tensors.values()), axis=1)))
    weights = np.zeros((features, 1), np.float32)
    weights[[7, 100], 0] = 2 * unit, unit
    head.set_weights([weights])
    values = np.random.default_rng(3).normal(size=(ROWS, features)).astype(np.float32)
    rows = SampledRows(dict(zip(inputs, values.T, strict=True)), (values @ weights)[:, 0], np.ones(ROWS, np.float32))
    return names, values, measure_importance(Network(model, inputs, config, ()), rows, "regression")


@pytest.mark.integration
@pytest.mark.parametrize(("features", "unit"), [(120, 1.0), (120, 1e20), (120, 1e-25), (MAX_FEATURES + 44, 1.0)])
def test_the_growth_of_the_loss_is_that_of_numpy(features, unit):
    names, values, found = _measured(features, unit)
    assert len(found) == (features if features <= MAX_FEATURES else MAX_FEATURES // 2)
    assert [entry["feature"] for entry in found[:2]] == [names[7], names[100]]
    order = np.random.default_rng(1).permutation(ROWS)
    variance = (2 * values[:, 7] + values[:, 100]).var()
    for entry, index, weight in ((found[0], 7, 2), (found[1], 100, 1)):
        moved = weight * (values[order, index] - values[:, index])
        assert entry["importance"] == pytest.approx(np.mean(moved**2) / variance, rel=1e-4)
    assert all(entry["importance"] == 0 for entry in found[2:])
