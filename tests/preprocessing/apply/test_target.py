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


def analysed(directory, task, table, features=FEATURES, crosses=()):
    """Returns the function that encodes the rows of the table or others, as train rows or not."""
    config = PreprocessingConfig.model_validate({"features": features, "crosses": crosses, "label": LABELS[task]})
    output = analyze_table(config, list(raw_batches(config, pa.table(table))), str(directory))
    transform = BatchTransformer(output, adapter_of(raw_schema(config)))

    def encode(*, train, apply=None):
        (batch,) = raw_batches(config, pa.table(apply or table), serving=apply is not None)
        done = transform(as_train_rows(batch) if train else batch)
        return np.array(done.to_pydict()["zone_mean_xf"], np.float64)

    return encode


def encoded(directory, task, table, features=FEATURES, *, crosses=(), **options):
    return analysed(directory, task, table, features, crosses)(**options)


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
    encode = analysed(tmp_path, task, table)
    of_train = encode(train=True)
    expected = [expected_of(zone, folds() != fold, numbers, zones) for zone, fold in zip(zones, folds(), strict=True)]
    np.testing.assert_allclose(of_train, expected, rtol=1e-3, atol=1e-4)
    asked = {"zone": ["b", "new", None, "a b"]}
    of_request = encode(train=False, apply=asked)
    everything = np.ones(ROWS, dtype=bool)
    expected = [expected_of(zone or "", everything, numbers, zones) for zone in asked["zone"]]
    np.testing.assert_allclose(of_request, expected, rtol=1e-3, atol=1e-4)
    assert (of_request[1:3] == 0).all()


def test_labels_that_differ_by_little_of_their_size_keep_their_differences(tmp_path):
    table = rows()
    # Times of one day in seconds since 1970, as float32 has them: multiples of 128.
    table["price"] = (1.7e9 // 128 * 128 + 128 * np.random.default_rng(4).integers(0, 675, ROWS)).tolist()
    seconds, zones = np.array(table["price"]), np.array(table["zone"])
    found = encoded(tmp_path, "regression", table, train=False, apply={"zone": ["b", "zürich"]})
    numbers = (seconds - seconds.mean())[:, np.newaxis]
    everything = np.ones(ROWS, dtype=bool)
    np.testing.assert_allclose(
        found, [expected_of(zone, everything, numbers, zones) for zone in ("b", "zürich")], rtol=1e-6
    )


def test_one_far_label_hides_nothing_of_the_others(tmp_path):
    table = rows()
    table["price"] = [1e30 if row == 0 else float(row % 7) for row in range(ROWS)]
    found = encoded(tmp_path, "regression", table, train=True)
    used, zones = folds() != folds()[0], np.array(table["zone"])
    numbers = np.array([0.0, *table["price"][1:]])[:, np.newaxis]
    row = next(row for row in range(1, ROWS) if not used[row] and zones[row])
    np.testing.assert_allclose(found[row], expected_of(zones[row], used, numbers, zones)[0], rtol=1e-6)


def test_a_cross_by_its_name_is_the_combination_of_its_features(tmp_path):
    table = rows()
    random = np.random.default_rng(8)
    table["km"] = random.uniform(0, 4, ROWS).tolist()
    features = {
        "zone": "category",
        "km": {"type": "number", "transforms": [{"bucketize": {"boundaries": [1, 2, 3]}}]},
        "zone_mean": {"type": "target", "cross": "zone_at_km"},
    }
    crosses = [{"name": "zone_at_km", "inputs": ["zone", "km"]}]
    found = encoded(tmp_path, "binary", table, features, crosses=crosses, train=False, apply=table)
    zones, bucket, everything = np.array(table["zone"]), np.floor(table["km"]), np.ones(ROWS, dtype=bool)
    both = np.array([f"{zone}/{km}" if zone else "" for zone, km in zip(zones, bucket, strict=True)])
    expected = [expected_of(one, everything, numbers_of("binary", table), both) for one in both]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_blanks_do_not_make_two_combinations_one(tmp_path):
    """("a b", "c") and ("a", "b c"), of different labels."""
    kind = np.arange(ROWS) % 2
    pairs = {"one": ["a b", "a"], "two": ["c", "b c"]}
    table = {name: [values[i] for i in kind] for name, values in pairs.items()}
    table["won"] = ((np.arange(ROWS) % 7 < 3) ^ (kind == 1)).astype(int).tolist()
    features = {"zone_mean": {"type": "target", "columns": ["one", "two"]}}
    found = encoded(tmp_path, "binary", table, features, train=False, apply=pairs)
    numbers, everything = numbers_of("binary", table), np.ones(ROWS, dtype=bool)
    names = np.array(["first", "second"])
    expected = [expected_of(name, everything, numbers, names[kind]) for name in names]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found[0, 0] < -0.1 and found[1, 0] > 0.1


@pytest.mark.parametrize(
    ("task", "column", "other"),
    [("binary", "won", None), pytest.param("regression", "price", 1e6, marks=pytest.mark.long)],
)
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
