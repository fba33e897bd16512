"""What `model: auto` plans to try: times by count, and the epochs that they bound."""

from dataclasses import replace

import pytest

from fullpass.trainer import planned
from fullpass.trainer.config import TrainingConfig, WideDeep
from fullpass.trainer.models.model_inputs import model_inputs, transformed_outputs
from fullpass.trainer.models.network_work import epoch_seconds
from fullpass.trainer.planned import Planned, plan_models, plan_words
from fullpass.trainer.train import RunOptions, train
from fullpass.trainer.trees.work import BUDGET, Work, seconds_of_work


def test_the_plan_says_the_sum_of_its_models():
    plan = [
        Planned("trees", None, 9.8, 90.0),
        Planned("wide_deep", None, 2.0, 60.0, 40),
        Planned("linear", None, 0.4, 0.4),
    ]
    assert plan_words(plan) == "tries trees, wide_deep and linear in about 12 s of processor, at most 150 s"
    assert plan_words(plan[1:2]) == "tries wide_deep in about 2 s of processor, at most 60 s"


def test_the_work_of_trees_bounds_the_first_forest_by_a_minute_but_leaves_300_rounds():
    """A round of 2,000,000 rows passes 40 columns * (2e6 * 5 cells + 31 * 256 bins), so that 6e10 are 149 rounds."""
    few, many = Work(1_000, 10, 1), Work(2_000_000, 40, 1)
    assert few.bounded_epochs == few.most_epochs(31) == 645
    assert int(BUDGET / many.of(31, 10)) == 14
    assert many.bounded_epochs == 30
    about, most = many.seconds_expected(many.bounded_epochs)
    assert most == pytest.approx(seconds_of_work(BUDGET + many.of(31, 300))) and about < most


@pytest.mark.integration
def test_an_epoch_takes_as_long_as_its_updates_inputs_and_weights(planted):
    """Two inputs: a number, whose 8 values and itself have 9 columns of 128 weights, and the ids of `kind`, one-hot.

    Their 128 * (9 + n) weights and the n of the linear part are read by 10 updates, and each of 1,000 rows passes them.
    """
    _, spec, _ = planted("binary").of("x", "kind").loaded(model="auto")
    inputs = model_inputs(transformed_outputs(spec.preprocessing, spec.tft_output), spec.tft_output)
    (ids,) = (item.size for item in inputs.values() if item.output.kind == "ids")
    kernel = 128 * (9 + ids)
    found = epoch_seconds(inputs, WideDeep(kind="wide_deep"), outputs=1, rows=1_000, updates=10)
    expected = 10 * (0.8e-3 + 2 * 14e-6 + 2.4e-9 * (kernel + ids)) + 1_000 * kernel * 1.6e-10
    assert found == pytest.approx(expected)


@pytest.mark.integration
def test_a_network_of_auto_ends_with_the_epochs_that_its_work_allows(planted, monkeypatch):
    monkeypatch.setattr(planned, "_NETWORK_SECONDS", 0.0)
    monkeypatch.setattr(planned, "_FEWEST_EPOCHS", 3)
    data, spec, strategy = planted("binary").of("x", "kind").loaded(model="auto")
    said = []
    options = RunOptions(report=lambda done, total, unit, note, ends_at: said.append((done, total, unit, note)))
    found = train(data, spec, strategy, options)
    assert said[0][:3] == (0, None, "") and said[0][3].startswith("tries trees, wide_deep and linear in about ")
    assert [note for *_, unit, note in said if unit == "updates"][-1] == "epoch 3 of at most 3"
    assert set(found.compared) == {"trees", "wide_deep", "linear"}


@pytest.mark.integration
def test_epochs_of_the_yaml_take_as_long_as_they_take(planted):
    """A network of few rows may make 300 epochs, of which the estimate assumes 30; here it makes 4 or 40."""
    data, spec, _ = planted("binary").of("x", "kind").loaded(model="auto")
    work = Work(1_000, 2, 1)
    by_epochs = {}
    for epochs in ("auto", 4, 40):
        config = spec.config.model_copy(update={"training": TrainingConfig(epochs=epochs)})
        by_epochs[epochs] = plan_models(data, replace(spec, config=config), work)[1]
    assert [one.most_epochs for one in by_epochs.values()] == [300, 4, 40]
    epoch = by_epochs[4].most / 4
    assert by_epochs["auto"].most == pytest.approx(300 * epoch) and by_epochs["auto"].about == pytest.approx(30 * epoch)
    assert by_epochs[40].about == pytest.approx(30 * epoch) and by_epochs[4].about == pytest.approx(4 * epoch)


@pytest.mark.parametrize(
    ("options", "epochs", "expected"),
    [
        (RunOptions(), "auto", (100, 300)),
        (RunOptions(most_epochs=150), "auto", (100, 150)),
        (RunOptions(most_epochs=3), "auto", (3, 3)),
        (RunOptions(most_epochs=3), 5, (5, 5)),
        (RunOptions(most_epochs=3, until=7), "auto", (7, 7)),
    ],
)
def test_counted_work_bounds_epochs_that_are_not_given(options, epochs, expected):
    assert options.epochs(TrainingConfig(epochs=epochs)) == expected


@pytest.mark.integration
def test_a_loss_without_a_linear_model_plans_none(planted):
    data, spec, _ = planted("regression").of("x", "kind").loaded(model="auto")
    for loss, linear in (("auto", True), ("absolute", False)):
        config = spec.config.model_copy(update={"training": TrainingConfig(loss=loss)})
        plan = plan_models(data, replace(spec, config=config), Work(1_000, 2, 1))
        assert ("linear" in [one.kind for one in plan]) == linear
