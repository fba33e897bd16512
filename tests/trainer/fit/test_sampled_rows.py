"""Rows that are sampled for measurements on a trained network."""

import numpy as np
import pytest
import tensorflow as tf

from fullpass.trainer.fit import sampled_rows
from fullpass.trainer.fit.sampled_rows import SampledRows, sample_rows

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def trained(planted):
    data, found = planted("binary").of("x", "note").trained(model="linear", training={"epochs": 1})
    return data, found.network


@pytest.mark.parametrize("few_bytes", [200, 4000])
def test_lists_are_padded_to_the_longest_of_their_batch(trained, monkeypatch, few_bytes):
    data, network = trained
    rows = sample_rows(data.evaluation.split, data.in_model, 150)
    whole = rows.logits(network)
    monkeypatch.setattr(sampled_rows, "_BATCH_BYTES", few_bytes)
    words = rows.padded("note_xf")
    lengths, first = (words > 0).sum(axis=1), 0
    for batch in rows.batches(network, rows.features):
        ids, last = batch["note_xf"].numpy(), first + len(batch["x_xf"])
        assert ids.shape[1] == batch["note.weight_xf"].shape[1] == lengths[first:last].max()
        np.testing.assert_array_equal(ids, words[first:last, : ids.shape[1]])
        first = last
    assert first == len(rows) and words.shape[1] == lengths.max()
    np.testing.assert_allclose(rows.logits(network), whole, rtol=1e-5, atol=1e-6)
    changed = {name: rows.features[name] for name in ("note_xf", "note.weight_xf")}
    np.testing.assert_allclose(rows.predictor(network)(changed), whole, rtol=1e-5, atol=1e-6)


def test_a_prediction_with_changed_features_is_that_of_rows_with_them(planted, monkeypatch):
    features = ("x", "trip miles", "kind", "city", "tags", "position")
    data, found = planted("binary").of(*features).trained(model="mlp", training={"epochs": 1})
    rows = sample_rows(data.evaluation.split, data.in_model, 150)
    monkeypatch.setattr(sampled_rows, "_BATCH", 64)
    predict = rows.predictor(found.network)
    order = np.random.default_rng(3).permutation(len(rows))
    for names in ([], ["kind_xf"], ["x_xf", "trip miles_xf"], ["tags_xf", "x_xf"], list(rows.features)):
        changed = {name: tf.gather(rows.features[name], order) for name in names}
        mixed = SampledRows({**rows.features, **changed}, rows.labels, rows.weights)
        np.testing.assert_allclose(predict(changed), mixed.logits(found.network), rtol=1e-5, atol=1e-6)


def test_a_padded_row_is_as_long_as_the_longest_list(trained):
    split = trained[0].train.split
    features, label, weight = split.sample(split.counts.weighted_rows)
    lists = [features[name].to_tensor() for name in ("note_xf", "note.weight_xf")]
    whole = sum(value.numpy().nbytes for value in (*lists, features["x_xf"], label, weight))
    assert split.padded_row_bytes == whole / len(label)
