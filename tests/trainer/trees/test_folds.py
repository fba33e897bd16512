"""The folds of a small table under `model: auto`: each train row judges models that did not learn from it."""

from dataclasses import replace

import lightgbm
import numpy as np
import pytest
import tensorflow as tf

from fullpass.trainer.config import SMALL_UP_TO, Trees
from fullpass.trainer.export.eval_scores import read_scores
from fullpass.trainer.fit.sampled_rows import sample_rows
from fullpass.trainer.linear.fit_linear import fit_linear
from fullpass.trainer.run_fn import run_fn
from fullpass.trainer.trees import grow_trees as growing
from fullpass.trainer.trees import work
from fullpass.trainer.trees.folds import FOLDS, assign, folds_of, folds_to_choose
from fullpass.trainer.trees.grow_trees import grow_trees
from fullpass.trainer.trees.rounds import regrow
from tests.trainer.conftest import planted_rows, prepare_by_hand, to_examples, training_of

NUMBERS = ("x", "trip miles", "position")


def with_folds(prepared, **training):
    data, spec, strategy = prepared.loaded(model="auto", training=training)
    return replace(data, folds=folds_of(data, spec)), spec, strategy


def in_order(split) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of all rows, [rows, 5], and their labels, in the order of the split."""
    rows = sample_rows(split, None, 10_000)
    names = ("x_xf", "trip miles_xf", "trip miles.missing_xf", "position_xf")
    columns = np.hstack([rows.padded(name).reshape(len(rows), -1) for name in names])
    order = np.argsort(split.sampled_numbers(10_000))
    return columns[order], rows.labels[order]


def grown(data, spec, epochs: int, **settings):
    settings = {"leaves": 31, "min_rows": 10, "learning_rate": 0.05} | settings
    own = replace(spec, config=spec.config.model_copy(update={"model": Trees(kind="trees", **settings)}))
    return grow_trees(data, own, epochs=(epochs, epochs), report=lambda *_: None, on_epoch=lambda *_: None)


def test_equal_rows_are_in_one_fold_and_classes_have_equal_shares():
    random = np.random.default_rng(0)
    keys = [f"row {number}" for number in random.permutation(300) % 200]  # half of the keys come twice
    classes = np.array([int(key.split()[1]) < 40 for key in keys], int)
    found = assign(keys, classes)
    assert len(set(zip(keys, found, strict=True))) == 200
    for number in (0, 1):
        of_keys = {key: fold for key, fold, c in zip(keys, found, classes, strict=True) if c == number}
        counts = np.bincount(list(of_keys.values()), minlength=FOLDS)
        assert counts.max() - counts.min() <= 1
    assert np.bincount(assign([str(i) for i in range(52)], None)).tolist() == [11, 11, 10, 10, 10]


def test_tables_that_are_large_tiny_or_of_a_rare_class_have_no_folds(planted, tmp_path):
    data, spec, _ = planted("binary").of(*NUMBERS).loaded(model="auto")

    def cut(rows: int) -> bool:
        own = replace(data, train=replace(data.train, counts=replace(data.train.counts, rows=rows, weightless=0)))
        return folds_of(own, spec) is not None

    assert cut(1000) and not cut(SMALL_UP_TO + 1) and not cut(99)
    _, of_trees, _ = planted("binary").of(*NUMBERS).loaded(model="trees")
    assert folds_of(data, of_trees) is None
    single = replace(data, of_single_rows=True)
    assert folds_to_choose(single, of_trees) is not None and folds_to_choose(data, of_trees) is None
    large = replace(data.train, counts=replace(data.train.counts, rows=40_001, weightless=0))
    assert folds_to_choose(replace(single, train=large), of_trees) is None
    rows = planted_rows(400, 1)
    few = [row for row in rows if row["likes"] != "yes"][:150] + [row for row in rows if row["likes"] == "yes"][:9]
    rare, spec, _ = prepare_by_hand(tmp_path, "binary", few, planted_rows(50, 2)).loaded(model="auto")
    assert folds_of(rare, spec) is None


def test_the_linear_model_of_a_row_is_a_ridge_on_the_rows_of_other_folds(planted):
    data, spec, _ = with_folds(planted("regression").of(*NUMBERS))
    x, labels = in_order(data.train.split)
    x = (x - x.mean(axis=0, dtype=float)) / x.std(axis=0, dtype=float)
    held = fit_linear(data, spec).held
    for fold in range(FOLDS):
        own, rest = data.folds == fold, data.folds != fold
        mean, center = labels[rest].mean(dtype=float), x[rest].mean(axis=0)
        of_rest = x[rest] - center
        weights = np.linalg.solve(of_rest.T @ of_rest + 0.1 * np.eye(5), of_rest.T @ (labels[rest] - mean))
        np.testing.assert_allclose(held[own, 0], mean + (x[own] - center) @ weights, rtol=1e-4)


def test_trees_of_a_row_are_those_that_lightgbm_grows_on_the_rows_of_other_folds(planted, monkeypatch):
    """Few rows, all of which have the bins; a number on the border of two may as float32 be on the other side."""
    monkeypatch.setattr(work, "BUDGET", 1.0)  # too little for random thresholds
    data, spec, _ = with_folds(planted("regression").of(*NUMBERS))
    found = grown(data, spec, 2)
    x, labels = in_order(data.train.split)
    x = np.delete(np.where(x[:, [2]] > 0.5, np.where(np.arange(5) == 1, np.nan, x), x), 2, axis=1)
    unit = (labels - labels.mean(dtype=float)) / labels.std(dtype=float)
    settings = {
        "num_leaves": 31,
        "learning_rate": 0.05,
        "min_data_in_leaf": 10,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "feature_fraction": 0.8,
        "seed": spec.config.training.seed,
        "deterministic": True,
        "force_row_wise": True,
        "feature_pre_filter": False,
        "num_threads": 1,
        "verbosity": -1,
    }
    whole = lightgbm.Dataset(x, unit, params=settings).construct()
    rounds = 10 * found.fitted.best_epoch
    for fold in range(FOLDS):
        own, rest = data.folds == fold, data.folds != fold
        learned = lightgbm.Dataset(x[rest], unit[rest], reference=whole, params=settings)
        answers = lightgbm.train(settings, learned, rounds).predict(x[own])
        expected = labels.mean(dtype=float) + labels.std(dtype=float) * answers
        assert np.isclose(found.held[own, 0], expected, rtol=1e-4).mean() >= 0.99
    error = np.sqrt(np.mean((found.held[:, 0] - labels) ** 2))
    assert found.loss == pytest.approx(error, rel=1e-3) and found.forests == 0


def test_without_validation_rows_each_seed_grows_once_and_the_model_is_their_mean(planted, monkeypatch):
    """The first forest of all rows is that of the first seed, which grows no second time."""
    seeds, learned = [], []

    def recorded(settings, rows, rounds, seed, stops):
        seeds.append(seed)
        learned.append((settings[0], rows, rounds))
        return regrow(settings, rows, rounds, seed, stops)

    monkeypatch.setattr(growing, "regrow", recorded)
    monkeypatch.setattr(growing, "choose_thresholds", lambda best, _: [best])
    data, spec, _ = with_folds(planted("regression").of(*NUMBERS))
    last = grown(data, spec, 2).again()
    first = spec.config.training.seed + 1
    assert last.forests == 3 and sorted(seeds) == [first, first + 1, first + 2]
    x, _ = in_order(data.train.split)
    x = np.delete(np.where(x[:, [2]] > 0.5, np.where(np.arange(5) == 1, np.nan, x), x), 2, axis=1)
    settings, rows, rounds = learned[0]
    answers = []
    for seed in range(first, first + 3):
        booster = lightgbm.Booster({**settings, "seed": seed}, rows)
        for _ in range(rounds):
            booster.update()
        answers.append(booster.predict(x))
    known = sample_rows(data.train.split, None, 10_000)
    found = known.logits(last.network)[np.argsort(data.train.split.sampled_numbers(10_000)), 0]
    labels = known.labels
    expected = labels.mean(dtype=float) + labels.std(dtype=float) * np.mean(answers, axis=0)
    assert np.isclose(found, expected, rtol=1e-4).mean() >= 0.99


def test_no_row_is_judged_by_a_model_that_learned_from_it(tmp_path, monkeypatch):
    """Labels are coins, and x tells each row apart, so that trees know the labels of the rows that they learned."""
    random = np.random.default_rng(5)
    rows = [{**row, "likes": "yes" if random.random() < 0.5 else "no"} for row in planted_rows(300, 1)]
    monkeypatch.setattr(work, "BUDGET", 1.0)
    data, spec, _ = with_folds(prepare_by_hand(tmp_path, "binary", rows, planted_rows(50, 2)).of("x"))
    known = sample_rows(data.train.split, None, 1000)
    order, trees = data.train.split.sampled_numbers(1000), grown(data, spec, 6, learning_rate=0.5, min_rows=1)
    for held in (trees.held, fit_linear(data, spec).held):
        assert np.corrcoef(known.labels, held[order, 0])[0, 1] < 0.1
    assert np.corrcoef(known.labels, known.logits(trees.network)[:, 0])[0, 1] > 0.3, "which the trees of all rows know"


@pytest.mark.integration
def test_run_fn_exports_and_records_a_model_of_folds(planted, tmp_path):
    prepared = planted("binary").of(*NUMBERS)
    args = prepared.fn_args(tmp_path, model="auto", training={"epochs": 6})
    args.custom_config["folds"] = True
    run_fn(args)
    record = training_of(tmp_path)
    assert record["folds"] == FOLDS and record["blend"]["rows"] == 300
    assert record["trees"]["forests"] in (3, 6), "also without validation rows"
    stored = read_scores(f"{tmp_path}/model_run/eval_scores.npz")
    loaded = tf.saved_model.load(str(tmp_path / "Format-Serving"))
    served = loaded.serving_default(tf.constant(to_examples(prepared.rows["eval"], 1000)))["scores"].numpy()
    np.testing.assert_allclose(served, stored["scores"][np.argsort(stored["row_id"])], rtol=1e-5, atol=1e-6)
    truth = np.array([row["likes"] == "yes" for row in prepared.rows["eval"]])
    assert -np.log(np.where(truth, served, 1 - served)).mean() < 1.1 * min(record["compared"].values())
