"""The choices of how trees grow: leaves, rows on a leaf, categories, thresholds, and the work that bounds them."""

import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import keras
import lightgbm
import numpy as np
import pytest

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import TrainingConfig, Trees
from fullpass.trainer.fit.fit import StoppedError
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.trees import growth, rounds, tree_rows
from fullpass.trainer.trees.folds import FOLDS
from fullpass.trainer.trees.growth import NumbersChoice
from fullpass.trainer.trees.rounds import Judge, Rounds, booster_parameters
from fullpass.trainer.trees.work import BUDGET, CATEGORIES, Work

pytestmark = pytest.mark.integration


def rounds_on(columns: np.ndarray, label: np.ndarray, categories: list[int]) -> Callable[[Mapping[str, float]], Rounds]:
    """Returns a function of parameters that returns boosters on four fifths of rows, with the others for validation."""
    train = np.arange(len(label)) % 5 > 0
    (common,) = booster_parameters(Trees(kind="trees"), TrainingConfig(), "regression", 0, 1)
    common |= {"num_leaves": 31, "min_data_in_leaf": 10, "learning_rate": 0.05}
    sets = [lightgbm.Dataset(columns[train], label[train], categorical_feature=categories, params=common)]
    sets.append(lightgbm.Dataset(columns[~train], label[~train], reference=sets[0], params=common))
    rows = [
        tree_rows.BinnedRows(data.construct(), label[chosen], np.ones(chosen.sum(), np.float32), {})
        for data, chosen in zip(sets, (train, ~train), strict=True)
    ]
    judge = judge_of("regression")
    return lambda parameters: Rounds([{**common, **parameters}], *rows, judge, ThreadPoolExecutor(1))


def judge_of(task: Task) -> Judge:
    """Returns a judge of logits that are the answers."""
    given = keras.Input((1,))
    head = keras.Model(given, keras.layers.Identity()(given))
    return Judge(head, loss_of(task), task, TrainingConfig())


@pytest.mark.parametrize("effect", [0.0, 2.0])
def test_ids_without_an_effect_are_smoothed_more_than_those_with_a_large_one(effect):
    """600 ids with ten rows each; the label is normal noise, plus the effect of the id."""
    random = np.random.default_rng(3)
    ids = np.repeat(np.arange(600), 10)
    label = (effect * random.normal(size=600)[ids] + random.normal(size=len(ids))).astype(np.float32)
    made = rounds_on(np.column_stack([ids, random.normal(size=len(ids))]), label, [0])
    chosen = choice_of(made, rows=len(ids), leaves=31, min_rows=10).run(categories=True).settings[0]
    assert (chosen["cat_smooth"] == CATEGORIES[0]["cat_smooth"]) == (effect > 0)


def choice_of(
    made, *, rows: int, columns: int = 2, outputs: int = 1, seconds: float | None = None, **model
) -> NumbersChoice:
    work = Work(rows, columns, outputs, seconds)
    return NumbersChoice(Trees(kind="trees", **model), work, rows, made, 2, [], epochs=100)


@pytest.mark.parametrize(("smooth", "leaves"), [(True, {7, 15}), (False, {63})])
def test_trees_have_few_leaves_where_effects_add_up_and_many_where_they_do_not(smooth, leaves):
    """The label is a sum of five columns with noise of its size, or another number in each of 216 cells of a cube."""
    random = np.random.default_rng(5)
    columns = random.random((6_000, 5))
    cells = random.normal(size=(6, 6, 6))[tuple((6 * columns[:, :3]).astype(int).T)]
    label = columns.sum(axis=1) + random.normal(size=6_000) if smooth else cells + 0.1 * random.normal(size=6_000)
    chosen = choice_of(rounds_on(columns, label.astype(np.float32), []), rows=6_000, columns=5).run(categories=False)
    assert chosen.settings[0]["num_leaves"] in leaves


@pytest.mark.parametrize(("beaten", "rounds"), [(True, 200), (False, 400)])
def test_the_usual_size_ends_when_another_one_beats_it_beyond_chance(monkeypatch, beaten, rounds):
    """The label is a sum of three waves, which fewer leaves learn better; all sizes improve for 400 rounds."""
    if not beaten:
        monkeypatch.setattr(growth, "gains", lambda *_: False)
    columns, grown = np.random.default_rng(5).random((4_000, 3)), []
    made = rounds_on(columns, np.sin(6 * columns).sum(axis=1).astype(np.float32), [])
    choice = choice_of(lambda own: grown.append(made(own)) or grown[-1], rows=4_000, columns=3, min_rows=10)
    chosen = choice.run(categories=False).settings[0]["num_leaves"]
    usual = next(one for one in grown if one.settings[0]["num_leaves"] == 31)
    assert (chosen, 10 * usual.epochs) == (15 if beaten else 31, rounds)


@pytest.mark.parametrize(("rows", "most"), [(1_500, 31), (1_501, 63)])
def test_few_rows_do_not_try_trees_of_so_many_leaves(rows, most):
    random, tried = np.random.default_rng(8), []
    made = rounds_on(random.random((500, 2)), random.random(500).astype(np.float32), [])
    choice_of(lambda own: tried.append(own["num_leaves"]) or made(own), rows=rows).run(categories=False)
    assert max(tried) == most


def test_folds_of_train_choose_where_few_validation_rows_would():
    """Train is a sum with noise of its size, for few leaves; each validation row is near cells of a cube, for many."""
    random = np.random.default_rng(5)
    columns = random.random((6_000, 5))
    cells = random.normal(size=(6, 6, 6))[tuple((6 * columns[:, :3]).astype(int).T)]
    label = np.where(np.arange(6_000) % 5 > 0, columns.sum(axis=1) + random.normal(size=6_000), cells)
    made = rounds_on(columns, label.astype(np.float32), [])
    given = made({"num_leaves": 31, "learning_rate": 0.1})
    folds = np.arange(len(given.train.label)) % FOLDS

    def of_folds(parameters):
        return Rounds(
            [{**given.settings[0], **parameters}], given.train, given.train, given.judge, given.growers, folds
        )

    choice = replace(choice_of(made, rows=4_800, columns=5), of_folds=of_folds)
    best = choice.run(categories=False)
    assert best.settings[0]["num_leaves"] in {7, 15} and best.settings[0]["learning_rate"] == 0.05
    assert (best.epochs, best.folds) == (0, None)  # it grows anew, by the validation rows
    assert replace(choice_of(made, rows=10**7, columns=5), of_folds=of_folds).of_folds is None


def test_numbers_of_the_user_are_kept_and_a_second_choice_grows_the_same_trees():
    random = np.random.default_rng(6)
    columns = random.random((2_000, 3))
    label = (columns.sum(axis=1) + random.normal(size=2_000)).astype(np.float32)
    made = rounds_on(columns, label, [])
    given = choice_of(made, rows=2_000, leaves=5, min_rows=77, learning_rate=0.3).run(categories=False).settings[0]
    assert (given["num_leaves"], given["min_data_in_leaf"], given["learning_rate"]) == (5, 77, 0.3)
    found = [choice_of(made, rows=2_000).run(categories=False) for _ in range(2)]
    losses = [one.loss_after(50, []) for one in found]
    assert found[0].settings == found[1].settings and losses[0] == losses[1]


def test_work_is_counted_and_trees_of_many_classes_hurry():
    """149 classes beside a text of 116 numbers are left out; 26 classes learn faster, and less is tried."""
    assert Work(1_000_000, 50, 1).of(31, 10) == pytest.approx(10 * 50 * (1_000_000 * 5 + 256 * 31))
    assert Work(10_000, 122, 149).too_long > 60 > Work(10_000, 122, 10).too_long == Work(10**7, 50, 1).too_long == 0
    assert Work(10_000, 10, 1, seconds=0.0).budget == 0 < Work(10_000, 10, 1, seconds=1.0).budget < BUDGET
    random = np.random.default_rng(7)
    made = rounds_on(random.random((500, 2)), random.random(500).astype(np.float32), [])
    rates = [choice_of(made, rows=14_000, columns=16, outputs=n).chosen["learning_rate"] for n in (1, 26)]
    assert rates == [0.05, 0.2]


@pytest.mark.parametrize(
    ("noise", "steps", "drawn"),
    [(0.05, 40, [False]), (2.0, 0, [True]), (0.5, 12, [False]), (0.35, 12, [False, True])],
)
def test_thresholds_are_drawn_at_random_where_noise_hides_smooth_effects(noise, steps, drawn):
    """The label is a jagged function of one column, or the sum of five columns and noise of about its size.

    The mean of both is best in the last two cases, but only in the last by more than a standard error.
    """
    random = np.random.default_rng(4)
    columns = random.random((2_000, 5))
    effect = np.sin(steps * columns[:, 0]) if steps else columns.sum(axis=1)
    label = (effect + noise * random.normal(size=len(columns))).astype(np.float32)
    grown = [rounds_on(columns, label, [])(own) for own in ({}, {"extra_trees": True})]
    for one in grown:
        one.run((40, 40), lambda *_: None, lambda *_: None, [])
    kept = rounds.choose_thresholds(*grown)
    answers = [one.logits[:, 0] for one in grown]
    errors = [(answer - label[::5]) ** 2 for answer in (*answers, np.mean(answers, axis=0))]
    alone = int(np.mean(errors[0]) > np.mean(errors[1]))
    gain = errors[alone] - errors[2]
    beyond_chance = gain.mean() > gain.std() / np.sqrt(len(gain))
    assert ["extra_trees" in one.settings[0] for one in kept] == drawn
    assert ([False, True] if beyond_chance else [bool(alone)]) == drawn


def test_a_request_to_stop_says_what_the_next_run_does():
    columns, label = np.random.default_rng(1).normal(size=(100, 2)), np.float32(np.arange(100) % 2)
    dataset = lightgbm.Dataset(columns, label, params={"verbosity": -1}).construct()
    rows = tree_rows.BinnedRows(dataset, label, np.ones(100, np.float32), {})
    settings = [{"objective": "binary", "metric": "None", "verbosity": -1}]
    rounds = Rounds(settings, rows, rows, judge_of("binary"), ThreadPoolExecutor(1))
    with pytest.raises(StoppedError, match="the next run grows the same trees"):
        rounds.run((3, 3), lambda *_: None, lambda *_: None, [signal.SIGTERM])
