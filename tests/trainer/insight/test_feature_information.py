"""Duplicates and mutual information of planted features; information by loops in numpy, chance by permuting rows."""

import math

import keras
import numpy as np
import pytest

from fullpass.preprocessing.features.output import Output
from fullpass.trainer.fit.sampled_rows import SampledRows
from fullpass.trainer.insight.feature_information import (
    commonest_share,
    find_duplicates,
    mutual_information,
    value_codes,
)
from fullpass.trainer.models.model_inputs import ModelInput

pytestmark = pytest.mark.integration

ROWS = 2000


def one(name, values):
    kind = "ids" if values.dtype == np.int64 else "dense"
    shape = values.shape[1:]
    return ModelInput(keras.Input(shape, name=name, dtype=str(values.dtype)), Output(name, name, kind))


def sampled(labels, **features) -> SampledRows:
    return SampledRows(features, labels, np.ones(len(labels), np.float32))


def by_loops(groups, labels) -> float:
    """Returns sum p(x, y) log(p(x, y) / (p(x) p(y)))."""
    found = 0.0
    for x in np.unique(groups):
        for y in np.unique(labels):
            both = ((groups == x) & (labels == y)).mean()
            if both:
                found += both * math.log(both / ((groups == x).mean() * (labels == y).mean()))
    return found


def test_information_is_that_of_loops_less_what_permuted_labels_have():
    random = np.random.default_rng(5)
    label = random.integers(0, 2, ROWS)
    ids = np.where(random.random(ROWS) < 0.3, label, random.integers(0, 8, ROWS))
    chance = np.mean([by_loops(ids, random.permutation(label)) for _ in range(50)])
    found = mutual_information(sampled(label.astype(np.float32), ids=ids), [one("ids", ids)], "binary")
    assert found == pytest.approx(by_loops(ids, label) - chance, abs=2e-4)
    assert found > 10 * chance


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_ids_of_their_own_and_noise_tell_nothing_and_a_copy_tells_all(task):
    random = np.random.default_rng(6)
    label = random.permutation(ROWS) % (2 if task == "binary" else ROWS)
    features = {
        "own": np.arange(ROWS),
        "many": random.integers(0, ROWS // 2, ROWS),
        "noise": random.normal(size=ROWS).astype(np.float32),
        "copy": label.astype(np.float32),
    }
    rows = sampled(label.astype(np.float32), **features)
    found = {name: mutual_information(rows, [one(name, values)], task) for name, values in features.items()}
    groups = 2 if task == "binary" else 10
    assert found["copy"] == pytest.approx(math.log(groups), abs=0.05)
    assert max(found["own"], found["many"], found["noise"]) < 0.01


def test_a_feature_one_to_one_with_an_earlier_one_is_its_duplicate():
    random = np.random.default_rng(7)
    ids, number = random.integers(0, 40, ROWS), random.normal(size=ROWS).astype(np.float32)
    features = {
        "ids": ids,
        "renamed": (ids * 7 + 3) % 41,
        "coarser": ids // 2,
        "number": number,
        "falling": -2 * number,
        "other": random.normal(size=ROWS).astype(np.float32),
        "constant": np.zeros(ROWS, np.int64),
        "constant_too": np.ones(ROWS, np.int64),
        "vector": np.stack([ids, ids], axis=1).astype(np.float32),
    }
    rows = sampled(np.zeros(ROWS, np.float32), **features)
    codes = {name: value_codes(rows, [one(name, values)]) for name, values in features.items()}
    assert find_duplicates(codes) == {"renamed": "ids", "falling": "number", "vector": "ids"}
    assert commonest_share(codes["ids"]) == np.bincount(ids).max() / ROWS
