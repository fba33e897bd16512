"""The blend of `model: auto`: its weights against hand-worked ones, and its export against its parts."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from fullpass.trainer.config import SMALL_NETWORK
from fullpass.trainer.export.eval_scores import read_scores
from fullpass.trainer.fit.blend import Choice, ConvexMean, choose_weights, choose_with_folds
from fullpass.trainer.fit.sampled_rows import SampledRows
from fullpass.trainer.fit.warm_start import read_base
from fullpass.trainer.loss_config import Auto, LogNormal, Quantile
from fullpass.trainer.run_fn import run_fn
from tests.trainer.conftest import to_examples, training_of

ROWS = 4000


def rows_of(labels: np.ndarray) -> SampledRows:
    return SampledRows({}, labels.astype(np.float32), np.ones(len(labels), np.float32))


def test_two_independent_errors_are_weighed_by_their_precision():
    """Errors of variance 1 and 4: the best weights are 4/5 and 1/5, and the error of the mean has variance 4/5."""
    random = np.random.default_rng(1)
    label = random.normal(0, 10, ROWS)
    outputs = {"a": label + random.normal(0, 1, ROWS), "b": label + random.normal(0, 2, ROWS)}
    outputs = {kind: output[:, None].astype(np.float32) for kind, output in outputs.items()}
    found = choose_weights(outputs, outputs["a"], rows_of(label), "regression", Auto())
    assert found.weights == pytest.approx({"a": 0.8, "b": 0.2}, abs=0.03)
    assert found.gain == pytest.approx(0.2 / 100, rel=0.2), "as a share of the variance of the label"
    assert found.pays and found.rows == ROWS


def test_models_of_equal_worth_are_blended_even_if_few_rows_cannot_prove_a_gain():
    gains, proven = [], []
    for seed in range(12):
        random = np.random.default_rng(seed)
        logit = random.normal(0, 2, ROWS)
        label = (random.random(ROWS) < 1 / (1 + np.exp(-logit))).astype(float)
        outputs = {kind: (logit + random.normal(0, 0.8, ROWS))[:, None].astype(np.float32) for kind in ("a", "b")}
        few = {kind: output[:60] for kind, output in outputs.items()}
        found = choose_weights(few, few["a"], rows_of(label[:60]), "binary", Auto())
        mean = sum(weight * outputs[kind][60:, 0] for kind, weight in found.weights.items())
        losses = [np.logaddexp(0, z) - z * label[60:] for z in (outputs["a"][60:, 0], mean)]
        gains.append(found.pays * (losses[0].mean() - losses[1].mean()))
        proven.append(found.gain > found.reach)
    assert min(gains) >= 0 and np.mean(gains) > 0.01 and np.mean(proven) < 0.2


@pytest.mark.parametrize(
    ("gain", "rows", "pays"),
    [(0.003, 4000, True), (0.001, 4000, False), (0.001, 300, True), (-0.0001, 300, False), (-0.0001, 4000, False)],
)
def test_a_blend_must_gain_and_where_rows_are_many_beyond_chance(gain, rows, pays):
    found = Choice({"trees": 0.6, "linear": 0.4, "wide_deep": 0.0}, gain, reach=0.002, rows=rows)
    assert found.pays == found.record()["kept"] == pays


def test_three_independent_errors_are_weighed_by_their_precision_and_a_fourth_of_noise_is_left_out():
    """Errors of variance 1, 2 and 4: the best weights are 4/7, 2/7 and 1/7, of independent models."""
    random = np.random.default_rng(2)
    label = random.normal(0, 10, ROWS)
    errors = {"a": 1.0, "b": 2**0.5, "c": 2.0, "noise": 30.0}
    outputs = {k: (label + random.normal(0, e, ROWS))[:, None].astype(np.float32) for k, e in errors.items()}
    found = choose_weights(outputs, outputs["a"], rows_of(label), "regression", Auto())
    assert found.parts == pytest.approx({"a": 4 / 7, "b": 2 / 7, "c": 1 / 7}, abs=0.03)
    assert found.weights["noise"] == 0 and sum(found.weights.values()) == pytest.approx(1) and found.pays


def test_a_second_model_of_noise_gets_no_weight():
    random = np.random.default_rng(3)
    label = random.normal(size=ROWS)
    outputs = {"a": label + 0.1 * random.normal(size=ROWS), "b": random.normal(size=ROWS) * 5}
    outputs = {kind: output[:, None].astype(np.float32) for kind, output in outputs.items()}
    found = choose_weights(outputs, outputs["a"], rows_of(label), "regression", Auto())
    assert found.weights["b"] < 0.01 and not found.pays
    assert choose_weights(outputs, outputs["a"], rows_of(label[:19]), "regression", Auto()) is None, "too few rows"


def test_with_folds_train_rows_weigh_models_among_themselves_and_a_network_needs_many_rows_to_leave_its_share():
    """Errors of variance 1 and 4 on train: 4/5 and 1/5 of the rest, whatever the validation rows say."""
    random = np.random.default_rng(6)

    def outputs_of(label: np.ndarray, **errors: float) -> dict[str, np.ndarray]:
        drawn = {kind: label + random.normal(0, error, len(label)) for kind, error in errors.items()}
        return {kind: output[:, None].astype(np.float32) for kind, output in drawn.items()}

    train = random.normal(0, 10, ROWS)
    held = outputs_of(train, trees=1.0, linear=2.0)
    shares = {}
    for count, error in ((30, 0.1), (ROWS, 0.1), (30, 8.0), (ROWS, 8.0)):
        label = random.normal(0, 10, count)
        outputs = outputs_of(label, trees=2.0, wide_deep=error, linear=1.0)
        found = choose_with_folds(outputs, held, "linear", rows_of(label), rows_of(train), "regression", Auto())
        assert error < 1 or found.weights["linear"] / found.weights["trees"] == pytest.approx(0.25, abs=0.05)
        assert sum(found.weights.values()) == pytest.approx(1) and found.rows == count
        shares[count, error] = found.weights["wide_deep"]
    assert shares[ROWS, 0.1] > 0.95 > shares[30, 0.1] > 0.2 > shares[30, 8.0] > shares[ROWS, 8.0] - 0.01


def test_amounts_are_blended_by_their_logarithms_and_quantiles_without_the_prediction():
    """The geometric mean of 1 and 100 with weights 1/4 and 3/4 is 100 ** 0.75, whose logarithm a head gets."""
    mean = ConvexMean((0.25, 0.75), LogNormal(kind="log_normal"))([tf.constant([[1.0]]), tf.constant([[100.0]])])
    np.testing.assert_allclose(mean, [[0.75 * np.log(100)]], rtol=1e-6)
    both = [tf.constant([[2.0, 1.0, 2.0]]), tf.constant([[4.0, 3.0, 4.0]])]
    np.testing.assert_allclose(ConvexMean((0.5, 0.5), Quantile(kind="quantile", levels=(0.1, 0.5)))(both), [[2.0, 3.0]])


@pytest.fixture(scope="module")
def blended(planted, tmp_path_factory) -> SimpleNamespace:
    """A blend of trees and a network of eight epochs; rows beside train end it, and rows of train itself judge it."""
    folder = tmp_path_factory.mktemp("blend")
    prepared = planted("binary")
    for split, name in (("train", "train"), ("validation", "eval")):
        shutil.copytree(prepared.directory / "transformed" / name, folder / f"Split-{split}")
    args = prepared.fn_args(folder, model="auto", training={"epochs": 8, "learning_rate": 0.03})
    args.eval_files, args.train_files = args.train_files, [f"{folder}/Split-train/*"]
    run_fn(args)
    return SimpleNamespace(
        export=folder / "Format-Serving", record=training_of(folder), folder=folder, prepared=prepared
    )


@pytest.mark.integration
def test_run_fn_exports_a_blend_that_answers_as_it_was_trained(blended):
    record = blended.record
    assert record["blend"]["kept"] and record["rows"] == {"train": 1000, "validation": 300, "eval": 1000}
    assert record["blend"]["rows"] == 300 and sum(record["blend"]["weights"].values()) == pytest.approx(1)
    assert record["trees"]["trees"] == 3 * (10 * 8 * 1300 // 1000)
    assert record["parameters"] > 2 * record["trees"]["leaves"]
    stored = read_scores(f"{blended.folder}/model_run/eval_scores.npz")
    order = np.argsort(stored["row_id"])
    examples = tf.constant(to_examples(blended.prepared.rows["train"]))
    loaded = tf.saved_model.load(str(blended.export))
    served = loaded.serving_default(examples)
    np.testing.assert_allclose(served["scores"], stored["scores"][order], rtol=1e-5, atol=1e-6)
    truth = np.array([row["likes"] == "yes" for row in blended.prepared.rows["train"]])
    loss = -np.log(np.where(truth, served["scores"], 1 - served["scores"].numpy())).mean()
    assert loss < min(record["compared"].values()), "train itself judges, so this is a low bar"
    *alone, both = record["candidates"]
    assert {one["kind"]: one["validation"] for one in alone} == record["compared"]
    assert {one["kind"]: one["weight"] for one in alone} == record["blend"]["weights"]
    # The export is calibrated, and its trees have learned from the validation rows too.
    assert both["kind"] == "blend" and both["eval"]["log_loss"] == pytest.approx(loss, abs=0.01)
    times = [[one[name] for name in ("train_seconds", "predict_ms")] for one in alone if one["weight"]]
    assert np.sum(times, axis=0) == pytest.approx([both["train_seconds"], both["predict_ms"]], abs=0.01)
    assert all(0 < ms < 60_000 for _, ms in times)


@pytest.mark.long
@pytest.mark.integration
def test_the_next_training_begins_from_the_network_of_a_blend(blended):
    base = read_base(str(blended.export))
    kernel = base.value(base.weights["hidden_0/kernel"])
    assert kernel.shape[1:] == (32,) and kernel.std() > 0
    network = SMALL_NETWORK.model_dump(mode="json")
    _, trained = blended.prepared.trained(base=blended.export, model=network, training={"epochs": 1})
    assert {origin.outcome for origin in trained.weight_origins} == {"taken"}
