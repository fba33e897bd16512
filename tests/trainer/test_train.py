"""Trainings on labels whose squares are beyond float32, or vanish in it, and on the validation rows in the end."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fullpass.preprocessing.features.image_feature import Cnn
from fullpass.trainer import train as module
from fullpass.trainer.config import TrainingConfig
from fullpass.trainer.fit.fit import Fitted
from fullpass.trainer.fit.sampled_rows import sample_rows
from fullpass.trainer.insight.insight import compared_rows, measure_insight
from fullpass.trainer.train import final, train
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
    return found.fitted.history, measure_insight(found.network, compared_rows(found.network, data), ())


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


def test_a_linear_model_learns_again_with_the_validation_rows_and_the_corrections_of_the_first(planted):
    prepared = planted("binary").of("x", "kind")
    data, spec, strategy = prepared.loaded(model="linear", training={"early_stopping": {"patience": 1}})
    assert train(data, spec, strategy).learned.again is None  # eval is validation
    data = replace(data, validation=replace(data.evaluation))
    assert data.train.joined(data.validation).counts.weighted_rows == 1_300
    first = train(data, spec, strategy)
    first.network.model.get_layer("head").correct(0.5, [0.25])
    before = [weight.copy() for weight in first.network.model.get_weights()]
    last = final(first, data, spec)
    assert last.learned.again is None and last.network is not first.network
    assert all(map(np.array_equal, before, first.network.model.get_weights()))
    sampled = sample_rows(data.validation.split, data.in_model, 10_000)
    raw = [2 * (sampled.logits(one.network)[:, 0] - 0.25) for one in (first, last)]
    losses = [np.log1p(np.exp(np.where(sampled.labels > 0, -z, z))).mean() for z in raw]
    assert losses[1] < losses[0], losses


@pytest.mark.parametrize(("encoder", "seconds"), [(Cnn(), 37.632), (Cnn(stride=2), 9.408)])
def test_an_epoch_of_images_must_gain_half_a_percent_of_a_constant_guess_a_minute(encoder, seconds):
    """60,000 pictures of 784 pixels, of ten equal classes whose shares lose ln 10; a stride leaves a quarter."""
    image = SimpleNamespace(width=784, output=SimpleNamespace(kind="image", image=SimpleNamespace(encoder=encoder)))
    counts = SimpleNamespace(weighted_rows=60_000, class_rows=np.full(10, 6_000), error_unit=1.0)
    data = SimpleNamespace(train=SimpleNamespace(counts=counts))
    found = module._least_gain(SimpleNamespace(inputs={"image": image}), data, TrainingConfig())
    assert found == pytest.approx(np.log(10) * 0.005 * seconds / 60)


def test_epochs_that_were_taken_back_are_not_repeated():
    """The best ones are 2 at the first rate, none at the second, and 1 at the third."""
    losses = [3.0, 2.0, 2.5, 2.6, 2.1, 2.2, 1.5, 1.6]
    fitted = Fitted({"loss": losses, "val_rmse": losses}, 7, 1.0, restarts=(4, 6))
    assert fitted.spans("rmse") == [2, 0, 1]
    assert Fitted({"loss": losses, "val_rmse": losses[:3]}, 2, 1.0).spans("rmse") == [2]
