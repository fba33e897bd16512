"""Target encoding: expected values are computed by numpy, row by row, from the rows of the other folds."""

import functools

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.analysis.analyze import analyze_table
from fullpass.preprocessing.analysis.traced_preprocessing import adapter_of
from fullpass.preprocessing.apply.transform_batches import BatchTransformer
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.values.raw_batches import as_train_rows, raw_batches

pytestmark = pytest.mark.integration


ROWS, FOLDS, SMOOTHING = 300, 5, 20.0
FEATURES = {"zone_mean": {"type": "target", "column": "zone"}}
LABELS = {
    "binary": {"name": "won", "task": "binary"},
    "multiclass": {"name": "colour", "task": "multiclass", "classes": ["red", "green", "blue"]},
    "regression": {"name": "price", "task": "regression"},
}


@functools.cache
def folds() -> np.ndarray:
    """Returns the fold of each row, int64 [ROWS]: TensorFlow's hash of the row's number."""
    return tf.strings.to_hash_bucket_fast([str(row) for row in range(ROWS)], FOLDS).numpy()


def rows() -> dict[str, list]:
    random = np.random.default_rng(3)
    zones = random.choice(["a b", "b", "zürich", ""], ROWS)
    prices = (random.normal(40, 1000, ROWS) * 10.0 ** random.integers(-3, 4, ROWS)).astype(np.float32)
    return {
        "zone": zones.tolist(),
        "won": (random.random(ROWS) < np.where(zones == "b", 0.8, 0.3)).astype(int).tolist(),
        "colour": random.choice(["red", "green", "blue"], ROWS, p=[0.6, 0.3, 0.1]).tolist(),
        "price": prices.tolist(),
    }


def encoded(directory, task, table, features=FEATURES, *, train, apply=None):
    config = PreprocessingConfig.model_validate({"features": features, "label": LABELS[task]})
    output = analyze_table(config, list(raw_batches(config, pa.table(table))), str(directory))
    transform = BatchTransformer(output, adapter_of(raw_schema(config)))
    (batch,) = raw_batches(config, pa.table(apply or table), serving=apply is not None)
    done = transform(as_train_rows(batch) if train else batch)
    return np.array(done.to_pydict()["zone_mean_xf"], np.float64)


def numbers_of(task, table) -> np.ndarray:
    """Returns the numbers whose means are encoded, float64 [rows, numbers]."""
    values = np.array(table[LABELS[task]["name"]])
    if task == "multiclass":
        return (values[:, np.newaxis] == np.array(LABELS[task]["classes"])).astype(float)
    return values.astype(np.float64)[:, np.newaxis]


def expected_of(zone, used, numbers, zones) -> np.ndarray:
    mine = used & (zones == zone) & (zone != "")
    mean, deviation = numbers[used].mean(axis=0), numbers[used].std(axis=0)
    return ((numbers[mine].sum(axis=0) + SMOOTHING * mean) / (mine.sum() + SMOOTHING) - mean) / deviation


@pytest.mark.parametrize("task", LABELS)
def test_train_rows_use_other_folds_and_all_others_use_train(tmp_path, task):
    table = rows()
    zones, numbers = np.array(table["zone"]), numbers_of(task, table)
    of_train = encoded(tmp_path / "train", task, table, train=True)
    expected = [expected_of(zone, folds() != fold, numbers, zones) for zone, fold in zip(zones, folds(), strict=True)]
    np.testing.assert_allclose(of_train, expected, rtol=1e-3, atol=1e-4)
    asked = {"zone": ["b", "new", None, "a b"]}
    of_request = encoded(tmp_path / "all", task, table, train=False, apply=asked)
    everything = np.ones(ROWS, dtype=bool)
    expected = [expected_of(zone or "", everything, numbers, zones) for zone in asked["zone"]]
    np.testing.assert_allclose(of_request, expected, rtol=1e-3, atol=1e-4)
    assert (of_request[1:3] == 0).all()


@pytest.mark.parametrize(("task", "column", "other"), [("binary", "won", None), ("regression", "price", 1e6)])
def test_a_changed_label_leaves_its_own_row_as_it_is_and_changes_rows_of_other_folds(tmp_path, task, column, other):
    table, row = rows(), 7
    before = encoded(tmp_path / "before", task, table, train=True)
    table[column][row] = 1 - table[column][row] if other is None else other
    after = encoded(tmp_path / "after", task, table, train=True)
    same_fold = folds() == folds()[row]
    np.testing.assert_array_equal(after[same_fold], before[same_fold])
    alike = (np.array(table["zone"]) == table["zone"][row]) & ~same_fold
    assert alike.any() and (after[alike] != before[alike]).all()


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ({"name": "colour", "task": "multiclass"}, "List the classes in label.classes"),
        ({"name": "colour", "task": "multilabel", "separator": "|"}, "use `type: count`"),
    ],
)
def test_labels_without_a_mean_are_refused(tmp_path, label, told):
    config = PreprocessingConfig.model_validate({"features": FEATURES, "label": label})
    with pytest.raises(UserError, match=rf"features\.zone_mean: .*{told}"):
        analyze_table(config, list(raw_batches(config, pa.table(rows()))), str(tmp_path / "graph"))
