"""Boosted trees as TensorFlow operations, against LightGBM's own predictions."""

import lightgbm
import numpy as np
import pytest

from fullpass.trainer.trees.forest import ForestLayer, forest_of, mean_of

CODE, FEW = 2, 3
"""Column numbers of the ids: one with 300 ids, and one with 4."""


def drawn_columns(rows: int = 3000) -> np.ndarray:
    """Returns two numeric columns, the first missing in every fifth row, and two columns of ids."""
    random = np.random.default_rng(1)
    numbers = random.normal(size=(rows, 2)) * [1, 1e6]
    numbers[::5, 0] = np.nan
    return np.column_stack([numbers, random.integers(0, 300, rows), random.integers(0, 4, rows)]).astype(np.float32)


def target(columns: np.ndarray) -> np.ndarray:
    return np.nan_to_num(columns[:, 0], nan=2.0) + np.sin(columns[:, 1] / 1e6) + 2 * (columns[:, CODE] % 7 == 0)


def grown(columns: np.ndarray, label: np.ndarray, **parameters) -> lightgbm.Booster:
    data = lightgbm.Dataset(columns, label, categorical_feature=[CODE, FEW])
    given = {"verbosity": -1, "num_threads": 1, "num_leaves": 15, "min_data_per_group": 10, **parameters}
    return lightgbm.train(given, data, 30)


def answers(boosters: list[lightgbm.Booster], columns: np.ndarray, **options) -> np.ndarray:
    layer = ForestLayer(forest_of([booster.dump_model() for booster in boosters], **options))
    return layer(columns).numpy()


def own_answers(booster: lightgbm.Booster, columns: np.ndarray) -> np.ndarray:
    return booster.predict(columns.astype(np.float64), raw_score=True).reshape(len(columns), -1)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("objective", "leaves"),
    [("regression", 15), ("binary", 15), ("multiclass", 15), ("regression", 100), ("multiclass", 70)],
)
def test_trees_answer_as_lightgbm_does(objective, leaves):
    """Trees of more than 32 leaves are in several blocks."""
    columns = drawn_columns()
    truth = target(columns)
    label = {"regression": truth, "binary": truth > 1, "multiclass": np.digitize(truth, [0, 2])}[objective]
    classes = {"num_class": 3} if objective == "multiclass" else {}
    booster = grown(columns, label.astype(float), objective=objective, num_leaves=leaves, **classes)
    queries = columns.copy()
    queries[:400, CODE] = np.arange(400)  # includes a hundred ids that training never saw
    queries[400, CODE] = 1e9
    np.testing.assert_allclose(answers([booster], queries), own_answers(booster, queries), rtol=2e-6, atol=2e-6)
    assert len(np.unique(answers([booster], queries))) > 500


def test_a_number_on_a_threshold_goes_left_as_in_lightgbm():
    columns = drawn_columns()
    booster = grown(columns, target(columns), objective="regression")
    forest = forest_of([booster.dump_model()])
    thresholds = np.unique(forest.threshold[(forest.in_set < 0) & (forest.column == 0)])
    queries = np.tile(columns[1], (3 * len(thresholds), 1))
    queries[:, 0] = np.concatenate(
        [thresholds, np.nextafter(thresholds, np.float32(-9)), np.nextafter(thresholds, np.float32(9))]
    )
    np.testing.assert_allclose(
        ForestLayer(forest)(queries).numpy(), own_answers(booster, queries), rtol=2e-6, atol=2e-6
    )


def test_several_boosters_give_a_column_each():
    columns = drawn_columns(500)
    boosters = [grown(columns, target(columns), objective="quantile", alpha=level) for level in (0.2, 0.8)]
    boosters[1].rollback_one_iter()  # no tree grew in one of its rounds
    expected = np.concatenate([own_answers(booster, columns) for booster in boosters], axis=1)
    np.testing.assert_allclose(answers(boosters, columns), expected, rtol=2e-6, atol=2e-6)


def test_members_answer_with_their_mean():
    columns = drawn_columns(500)
    label = np.digitize(target(columns), [0, 2])
    members = [grown(columns, label, objective="multiclass", num_class=3, num_leaves=n) for n in (4, 15)]
    dumps = mean_of([[booster.dump_model()] for booster in members])
    expected = np.mean([own_answers(booster, columns) for booster in members], axis=0)
    np.testing.assert_allclose(ForestLayer(forest_of(dumps))(columns).numpy(), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.integration
def test_what_train_never_held_goes_the_way_of_most_rows():
    """Trees with two leaves: one separates two of ten ids, one separates the numbers above 0, a tenth of the rows."""
    ids = np.repeat(np.arange(2, 12), 100).astype(np.float32)[:, None]
    settings = {
        "objective": "regression",
        "num_leaves": 2,
        "verbosity": -1,
        "min_data_per_group": 1,
        "learning_rate": 1.0,
    }
    settings |= {"cat_smooth": 0, "cat_l2": 0, "max_cat_to_onehot": 1}

    def one_tree(column: np.ndarray, label: np.ndarray, **data) -> lightgbm.Booster:
        return lightgbm.train(settings, lightgbm.Dataset(column, label, **data), 1)

    apart = one_tree(ids, np.isin(ids[:, 0], [2, 3]).astype(float), categorical_feature=[0])
    queries = np.float32([[0], [1], [2], [11]])
    np.testing.assert_allclose(answers([apart], queries, never_seen={0: [0, 1]})[:, 0], [0, 0, 1, 0], atol=1e-6)
    others = one_tree(ids, (~np.isin(ids[:, 0], [2, 3])).astype(float), categorical_feature=[0])
    np.testing.assert_allclose(answers([others], queries, never_seen={0: [0, 1]})[:, 0], [1, 1, 0, 1], atol=1e-6)
    numbers = np.linspace(-9, 1, 1000, dtype=np.float32)[:, None]
    rarely = one_tree(numbers, (numbers[:, 0] > 0).astype(float))
    np.testing.assert_allclose(answers([rarely], np.float32([[np.nan], [-1], [1]]))[:, 0], [0, 0, 1], atol=1e-6)


def test_a_tree_without_a_decision_and_a_batch_without_rows():
    columns = drawn_columns(100)
    booster = grown(columns, np.ones(100), objective="regression")
    np.testing.assert_allclose(answers([booster], columns), own_answers(booster, columns))
    assert answers([booster], columns[:0]).shape == (0, 1)


@pytest.mark.integration
def test_a_large_batch_is_answered_piece_by_piece(monkeypatch):
    columns = drawn_columns(1000)
    booster = grown(columns, target(columns), objective="regression")
    whole = answers([booster], columns)
    monkeypatch.setattr("fullpass.trainer.trees.forest._CELLS", 15 * 30 * 7)  # seven rows at a time
    np.testing.assert_array_equal(answers([booster], columns), whole)
