"""The growth of boosted trees, and their training through run_fn."""

import json
import math
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import lightgbm
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fullpass.base.errors import UserError
from fullpass.components.predict.exported import load_export
from fullpass.components.predict.predict import predict_tables
from fullpass.components.predict.predicted_columns import BASE, EFFECT
from fullpass.trainer.config import TrainingConfig, Trees
from fullpass.trainer.export.eval_scores import read_scores
from fullpass.trainer.fit.sampled_rows import sample_rows
from fullpass.trainer.fit.warm_start import find_base, read_base
from fullpass.trainer.run_fn import run_fn
from fullpass.trainer.train import Trained, final, train
from fullpass.trainer.trees import grow_trees, rounds, tree_rows, work
from fullpass.trainer.trees.rounds import Rounds, booster_parameters
from tests import REPOSITORY, warm_process
from tests.trainer.conftest import CLASSES, LABELS, planted_rows, prepare_by_hand, to_examples, training_of

pytestmark = pytest.mark.integration


def trained(prepared, *, compute_at: str = "transform", cache: str = "auto", **training) -> Trained:
    """Returns the trees that are trained on the planted rows in three epochs."""
    read = {"compute_at": compute_at, "cache": cache}
    few = prepared.of("x", "trip miles", "kind", "tags", "position")
    return few.trained(model="trees", training={"epochs": 3, **training}, input=read)[1]


def test_trees_grow_again_on_validation_rows_with_the_corrections_of_the_first(binary):
    data, spec, strategy = binary.loaded(model="trees", training={"epochs": 3, "early_stopping": None})
    assert train(data, spec, strategy).parts["trees"].again is None  # eval is validation
    data = replace(data, validation=replace(data.evaluation))
    hurried = spec.config.model_copy(update={"training": spec.config.training.model_copy(update={"time": "0s"})})
    assert train(data, replace(spec, config=hurried), strategy).parts["trees"].again is None
    first = train(data, spec, strategy)
    first.network.model.get_layer("head").correct(0.5, [0.25])
    last = final(first, data, spec)
    rows = data.train.counts.weighted_rows, data.validation.counts.weighted_rows
    assert (first.trees["forests"], last.trees["forests"]) == (0, 3)
    assert last.trees["trees"] == 3 * math.ceil(10 * first.fitted.best_epoch * sum(rows) / rows[0])
    sampled = sample_rows(data.validation.split, data.in_model, 10_000)
    raw = [2 * (sampled.logits(one.network)[:, 0] - 0.25) for one in (first, last)]
    losses = [np.log1p(np.exp(np.where(sampled.labels > 0, -z, z))).mean() for z in raw]
    assert losses[1] < 0.98 * losses[0], losses


@pytest.mark.parametrize(("most", "tried"), [(100_000, True), (300, False)])
def test_random_thresholds_are_not_tried_where_two_forests_have_too_many_leaves(binary, monkeypatch, most, tried):
    """Thirty trees of up to 31 leaves have more than half of 600."""
    made = []

    class Recorded(Rounds):
        def __init__(self, settings, *args):
            made.append(settings[0])
            super().__init__(settings, *args)

    monkeypatch.setattr(grow_trees, "Rounds", Recorded)
    monkeypatch.setattr(work, "MOST_LEAVES", most)
    data, spec, strategy = binary.loaded(model="trees", training={"epochs": 3, "early_stopping": None})
    train(replace(data, validation=replace(data.evaluation)), spec, strategy)
    assert any("extra_trees" in settings for settings in made) == tried


SECTIONS = {"model": "trees", "training": {"epochs": 20}}


@pytest.fixture(scope="module")
def binary(planted):
    return planted("binary").of("x", "kind", "tags", "city")


@pytest.fixture(scope="module")
def export(binary, tmp_path_factory) -> Path:
    """The export of trees trained on the planted rows, with `model_run` beside it."""
    folder = tmp_path_factory.mktemp("trees")
    run_fn(binary.fn_args(folder, **SECTIONS))
    return folder / "Format-Serving"


def test_run_fn_exports_trees(binary, export):
    """`likes` depends on x with a sign that depends on `kind`, so one decision of a tree is not enough."""
    record = training_of(export.parent)
    assert record["trees"]["trees"] == 10 * record["best_epoch"] <= 200
    assert record["history"]["val_auc"][record["best_epoch"] - 1] > 0.95
    assert {entry["feature"] for entry in record["importance"][:3]} >= {"x", "kind"}
    loaded = tf.saved_model.load(str(export))
    records = sum(binary.records("raw", "eval"), [])
    scores = loaded.signatures["serving_default"](examples=tf.constant(records))["scores"].numpy()
    stored = read_scores(f"{export.parent}/model_run/eval_scores.npz")["scores"]
    np.testing.assert_array_equal(np.sort(scores), np.sort(stored))


@pytest.mark.long
def test_trees_are_the_same_again_wherever_features_are_computed(planted):
    first, other = (trained(planted("multiclass"), compute_at=place) for place in ("transform", "model"))
    histories = [{**found.fitted.history, "step_ms": []} for found in (first, other)]
    assert histories[0] == histories[1]
    assert all(map(np.array_equal, first.network.model.get_weights(), other.network.model.get_weights()))


@pytest.mark.parametrize(
    "loss",
    [
        *(pytest.param(loss, marks=pytest.mark.long) for loss in ("absolute", "huber", "log_normal")),
        "poisson",
        "tweedie",
        {"kind": "quantile"},
    ],
)
def test_losses_of_regressions(planted, loss):
    """The price, 1000 + 200 x + 50 trip miles, has a deviation of 250; thirty rounds remove half of it."""
    found = trained(planted("regression"), loss=loss)
    history = found.fitted.history
    assert history["val_rmse"][-1] < 130
    assert history["val_loss"][-1] < history["val_loss"][0]
    if found.network.model.output_shape[-1] > 1:
        rows = {
            tensor.name: tf.zeros([1, *(n or 1 for n in tensor.shape[1:])], tensor.dtype)
            for tensor in found.network.model.inputs
        }
        middle, low, _, high = found.network.model(rows).numpy()[0]
        assert low < middle < high
        assert history["val_coverage_0.1"][-1] < 0.3 < 0.7 < history["val_coverage_0.9"][-1]


@pytest.mark.long
def test_rows_that_are_read_anew_grow_the_same_trees(planted):
    """Rows come from memory or from the files; their order is that of the files in both cases."""
    kept, read = (trained(planted("binary"), cache=cache, epochs=1) for cache in ("memory", "none"))
    assert {**kept.fitted.history, "step_ms": []} == {**read.fitted.history, "step_ms": []}


def test_wild_labels_move_the_median_less_than_the_mean(tmp_path):
    """A tenth of the prices are a million: the squared error follows them, the absolute error hardly does."""
    rows = [{**row, "price": 1e6} if i % 10 == 5 else row for i, row in enumerate(planted_rows(600, 1))]
    prepared = prepare_by_hand(tmp_path / "wild", "regression", rows, planted_rows(200, 2))

    def error(loss) -> float:
        return trained(prepared, loss=loss).fitted.history["val_mae"][-1]

    assert 4 * error("absolute") < error("squared")


def test_rows_count_by_their_weight(tmp_path, monkeypatch):
    """Two thirds of the rows have the wrong label, with little or no weight."""
    flipped = {"yes": "no", "no": "yes"}
    rows = [
        {**row, "weight": 1.0} if i % 3 == 0 else {**row, "likes": flipped[row["likes"]], "weight": (0.0, 0.01)[i % 2]}
        for i, row in enumerate(planted_rows(1500, 1))
    ]
    evaluation = [{**row, "weight": 1.0} for row in planted_rows(200, 2)]
    monkeypatch.setitem(LABELS, "binary", {**LABELS["binary"], "weight": "weight"})
    found = trained(prepare_by_hand(tmp_path / "weighted", "binary", rows, evaluation), epochs=10)
    assert max(found.fitted.history["val_auc"]) > 0.9


def test_class_weights_move_trees_and_calibration_takes_them_back(binary, tmp_path):
    label = LABELS["binary"] | {"class_weights": {"yes": 20.0}}
    prepared = replace(binary, preprocessing=binary.preprocessing | {"label": label})
    run_fn(prepared.fn_args(tmp_path, model="trees", training={"epochs": 2}))
    record = training_of(tmp_path)
    stored = read_scores(f"{tmp_path}/model_run/eval_scores.npz")
    share = np.mean([row["likes"] == "yes" for row in prepared.rows["eval"]])
    assert stored["scores"].mean() == pytest.approx(share, abs=0.07)
    assert record["calibration"]["before"]["gap"] > 0.2 > 0.15 > record["calibration"]["after"]["gap"]


@pytest.mark.long
def test_probabilities_of_several_classes_are_calibrated(planted, tmp_path):
    """The log loss after calibration in training.json equals that of the stored scores, computed here."""
    prepared = planted("multiclass")
    run_fn(prepared.fn_args(tmp_path, model="trees", training={"epochs": 3}))
    record = training_of(tmp_path)
    stored = read_scores(f"{tmp_path}/model_run/eval_scores.npz")
    scores = stored["scores"][np.argsort(stored["row_id"])]
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)
    truth = [CLASSES["multiclass"].index(row["group"]) for row in prepared.rows["eval"]]
    log_loss = -np.log(scores[np.arange(len(truth)), truth]).mean()
    assert record["calibration"]["after"]["log_loss"] == pytest.approx(log_loss, rel=1e-4)
    assert log_loss < record["calibration"]["before"]["log_loss"], "thirty small trees are not sure enough"


def test_a_time_budget_ends_growth_after_an_epoch(planted):
    found = trained(planted("binary"), time="0s", epochs="auto")
    assert (found.fitted.ended_by, found.fitted.epochs, found.trees["trees"]) == ("time", 1, 10)


def test_without_early_stopping_all_rounds_grow_and_the_best_are_kept(planted):
    found = trained(planted("binary"), epochs=12, early_stopping=None)
    losses = found.fitted.history["val_log_loss"]
    assert (found.fitted.ended_by, len(losses)) == ("epochs", 12)
    assert found.trees["trees"] == 10 * (1 + int(np.argmin(losses)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "metric", "rate", "kept"),
    [("binary", "log_loss", 1e-6, "trees"), ("regression", "rmse", 0.01, "wide_deep")],
)
def test_the_best_of_several_models_is_kept(planted, tmp_path, task, metric, rate, kept):
    """A network that hardly learns is worse than trees; one that learns adds numbers better than trees."""
    prepared = planted(task).of("x", "trip miles", "kind", "tags", "position")
    run_fn(prepared.fn_args(tmp_path, model="auto", training={"epochs": 8, "learning_rate": rate}))
    record = training_of(tmp_path)
    assert min(record["compared"], key=record["compared"].get) == kept
    assert set(record["compared"]) == {"trees", "wide_deep", "linear"}
    history = record["history"][f"val_{metric}"]
    assert history[record["best_epoch"] - 1] == min(record["compared"].values())
    weights = json.loads((tmp_path / "Format-Serving" / "assets.extra" / "weights.json").read_text())
    blended = record["blend"]["weights"] if record["blend"]["kept"] else {kept: 1.0}
    held = {kind for kind, weight in blended.items() if weight}
    assert (held == {"trees"}) if kept == "trees" else (kept in held)
    assert ("weights" in weights) == ("wide_deep" in held) and bool(record["trees"]) == ("trees" in held)
    curves = EventAccumulator(str(tmp_path / "model_run" / "validation")).Reload()
    values = [float(tf.make_ndarray(event.tensor_proto)) for event in curves.Tensors(metric)]
    assert values == pytest.approx(history), "of the best one"


def test_focal_loss_is_refused_where_no_check_has_seen_it(planted):
    with pytest.raises(UserError, match="training.loss: focal is not for trees"):
        trained(planted("binary"), loss="focal")


KILLED = """
import os, pickle, signal, sys
os.environ.update(TF_USE_LEGACY_KERAS="0", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
from fullpass.trainer.run_fn import run_fn
from fullpass.trainer.trees.rounds import Rounds
grow, number = Rounds._grow, int(sys.argv[2])

def signal_itself(rounds, stops):
    if len(rounds._grown) == 3:
        os.kill(os.getpid(), number)
    return grow(rounds, stops)

Rounds._grow = signal_itself
run_fn(pickle.load(open(sys.argv[1], "rb")))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_run_that_was_killed_grows_the_same_trees_again(binary, export, tmp_path, number):
    args = binary.fn_args(tmp_path, **SECTIONS)
    (tmp_path / "args").write_bytes(pickle.dumps(args))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "args"), str(int(number))]
    done = warm_process.run(command, cwd=REPOSITORY, timeout=600)
    assert done.returncode == -number, done.stderr[-3000:]
    assert not (tmp_path / "model_run" / "training.json").exists()
    run_fn(args)
    again = training_of(tmp_path)
    whole = training_of(export.parent)
    assert {**again["history"], "step_ms": []} == {**whole["history"], "step_ms": []}
    assert again["trees"] == whole["trees"]


def test_a_model_of_trees_has_no_weights_to_begin_from(export):
    with pytest.raises(UserError, match="is a model of boosted trees, which has no weights for a warm start"):
        read_base(str(export))
    assert find_base(TrainingConfig(warm_start="blessed"), str(export)) is None, "a network begins anew"


def test_what_moves_a_prediction_of_trees_adds_up_to_it(binary, export, tmp_path):
    """x decides for kinds a and b, and nothing but the tags for kind c.

    As long as kind counts as missing, x may move the score of kind c too: its effect is not 0, but small.
    """
    rows = binary.rows["eval"][:60]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = pa.concat_tables(predict_tables(load_export(export), str(source), explained=True)).to_pylist()
    for row in found:
        effects = [value for name, value in row.items() if name.startswith(EFFECT)]
        assert row[BASE] + sum(effects) == pytest.approx(row["probability_yes"], abs=1e-5)

    def mean_effect(name: str, kinds: str) -> float:
        return float(np.mean([abs(row[f"{EFFECT}{name}"]) for row in found if row["kind"] in kinds]))

    serve = tf.saved_model.load(str(export)).signatures["serving_default"]

    def mean_change(kinds: str) -> float:
        """Returns by how much the score changes if x is missing and all else is known."""
        shown = [row for row in rows if row["kind"] in kinds]
        scores = [
            serve(examples=tf.constant(to_examples(given)))["scores"].numpy()
            for given in (shown, [{**row, "x": None} for row in shown])
        ]
        return float(np.mean(np.abs(scores[0] - scores[1])))

    assert mean_change("ab") > 0.3
    assert mean_change("c") < 0.01
    assert mean_effect("x", "ab") > 2 * mean_effect("x", "c")
    assert mean_effect("tags", "c") > 2 * mean_effect("x", "c")
    assert mean_effect("tags", "c") > 2 * mean_effect("city", "abc")


def test_more_than_fits_into_memory_is_refused_before_it_is_read(planted, monkeypatch):
    monkeypatch.setattr(tree_rows, "available_memory", lambda: 1000)
    with pytest.raises(UserError, match=r"1,000 train rows of \d+ columns take about .* and 0.0 GB are free"):
        trained(planted("binary"))


@pytest.mark.parametrize(("given", "expected"), [({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")])
def test_threads_that_wait_sleep_unless_the_user_says_otherwise(given, expected):
    code = "import os, sys, fullpass.trainer.trees; print(os.environ['OMP_WAIT_POLICY'], 'lightgbm' in sys.modules)"
    usual = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=usual | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [expected, "False"]


@pytest.mark.parametrize(
    ("rows", "columns", "cores", "expected"),
    [(3_000, 16, 8, 1), (100_000, 13, 8, 2), (100_000, 13, 1, 1), (50_000_000, 20, 8, 8), (0, 5, 4, 1)],
)
def test_a_small_table_gets_one_thread(rows, columns, cores, expected, monkeypatch):
    monkeypatch.setattr(rounds, "usable_cores", lambda: cores)
    assert rounds.threads_for(rows, columns) == expected


def test_parts_of_folds_keep_the_number_of_threads(binary, monkeypatch):
    """LightGBM takes it from what was made last; two threads took a fifth of the time of small trees for waiting."""
    parts, part_of = [], Rounds._part

    def part(own: Rounds, rows: np.ndarray) -> lightgbm.Dataset:
        parts.append(part_of(own, rows))
        return parts[-1]

    monkeypatch.setattr(Rounds, "_part", part)
    data, spec, strategy = binary.loaded(model="trees", training={"epochs": 1})
    train(replace(data, folds=np.arange(data.train.counts.weighted_rows) % 5), spec, strategy)
    assert [part.params.get("num_threads") for part in parts] == [1] * len(parts) != []


@pytest.mark.parametrize("folds", [False, True])
def test_boosters_that_grow_at_the_same_time_grow_the_same_trees(binary, folds, monkeypatch):
    data, spec, strategy = binary.loaded(model="trees", training={"epochs": 3, "early_stopping": None})
    in_turn = np.arange(data.train.counts.weighted_rows) % 5
    data = replace(data, validation=replace(data.evaluation), folds=in_turn if folds else None)
    rows = sample_rows(data.evaluation.split, data.in_model, 1_000)
    found = []
    for cores in (1, 4):
        monkeypatch.setattr(rounds, "usable_cores", lambda cores=cores: cores)
        first = train(data, spec, strategy)
        answers = [rows.logits(one.network).tolist() for one in (first, final(first, data, spec))]
        found.append(({**first.fitted.history, "step_ms": []}, first.trees, first.parts["trees"].loss, answers))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("auto", [{"objective": "regression"}]),
        ("absolute", [{"objective": "regression_l1"}]),
        ({"kind": "huber", "delta": 2.0}, [{"objective": "huber", "alpha": 2.0}]),
        (
            {"kind": "quantile", "levels": [0.2, 0.9]},
            [{"objective": "quantile", "alpha": level} for level in (0.2, 0.9)],
        ),
    ],
)
def test_what_lightgbm_is_asked_to_make_smaller(loss, expected):
    training = TrainingConfig.model_validate({"loss": loss})
    found = booster_parameters(Trees(kind="trees"), training, "regression", 0, 1)
    assert [{key: one[key] for key in ("objective", "alpha") if key in one} for one in found] == expected
