"""Training on labels whose squares are beyond float32, or vanish in it."""

import numpy as np
import pytest

from fullpass.trainer.insight.insight import measure_insight
from tests.trainer.conftest import planted_rows, prepare_by_hand

pytestmark = pytest.mark.integration

IN_THE_UNIT = ("val_rmse", "val_mae", "val_pinball_0.1", "val_pinball_0.5", "val_pinball_0.9")


def trained(folder, unit, **sections):
    """Returns the history of a training on the planted prices in a unit, and the entries of its insight."""
    train, evaluation = (
        [{**row, "price": row["price"] * unit} for row in planted_rows(*which)] for which in ((600, 1), (200, 2))
    )
    prepared = prepare_by_hand(folder / f"{unit:g}", "regression", train, evaluation).of("x", "trip miles")
    data, found = prepared.trained(**sections)
    return found.fitted.history, measure_insight(found.network, data)


@pytest.mark.parametrize(("model", "power"), [("mlp", -83), ("trees", -83), ("auto", 66)])
def test_a_training_is_that_of_the_same_label_in_another_unit(tmp_path, model, power):
    """A power of two changes the exponents of floats only, so that nothing is rounded otherwise."""
    loss = {"kind": "quantile"} if model == "trees" else "auto"
    both = [
        trained(tmp_path, unit, model=model, training={"epochs": 3, "learning_rate": 0.03, "loss": loss})
        for unit in (1.0, 2.0**power)
    ]
    (history, insight), (in_unit, insight_in_unit) = both
    assert in_unit["val_rmse"][-1] < in_unit["val_rmse"][0]
    for name, values in history.items():
        if name not in ("step_ms", "input_wait"):
            scale = 2.0**power if name in IN_THE_UNIT else 1.0
            np.testing.assert_allclose(in_unit[name], scale * np.array(values), rtol=1e-3, err_msg=name)
    for name in ("reference", "network", "reach"):
        expected = insight["reference"][name] * 2.0**power
        assert insight_in_unit["reference"][name] == pytest.approx(expected, rel=1e-3, abs=0)
    known = {entry["feature"]: entry["importance"] for entry in insight["importance"]}
    for entry in insight_in_unit["importance"]:
        assert entry["importance"] == pytest.approx(known[entry["feature"]], rel=1e-3)
