"""Encoders read ids in order: padding has no effect, and they learn an order that pooling cannot represent."""

import keras
import numpy as np
import pytest

from fullpass.preprocessing.columns.outputs import outputs
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.ids import Embedding
from fullpass.preprocessing.features.lists import ListOf
from fullpass.preprocessing.features.output import Output
from fullpass.trainer.config import Mlp
from fullpass.trainer.models.model_inputs import ModelInput
from fullpass.trainer.models.networks import build_model
from fullpass.trainer.models.sequence_encoders import Last, MaskedMean, TargetAttention

VOCABULARY, LONGEST = 24, 8


def model_of(options, units=16):
    """Returns a model of `shown` and `seen`, and the input of the feature."""
    declared = ListOf.model_validate(options)
    shared = {"encoding": Embedding(embedding=units), "table": "shown"}
    seen = Output(
        "seen", "seen", "ids", multi=True, pooling=declared.pooling, encoder=declared.encoder, longest=LONGEST,
        attend_to=declared.attend_to, **shared,
    )  # fmt: skip
    shown = Output("shown", "shown", "ids", **shared)
    return built(
        {
            "shown": ModelInput(keras.Input((), name="shown", dtype="int64"), shown, VOCABULARY),
            "seen": ModelInput(keras.Input((None,), name="seen", dtype="int64"), seen, VOCABULARY),
        }
    )


def built(inputs):
    keras.utils.set_random_seed(1)
    return build_model(inputs, task="binary", classes=1, config=Mlp(kind="mlp", hidden=[32]))


def task(rows, seed):
    """Returns lists without repetition, one value of each, and whether that value is in the later half."""
    rng = np.random.default_rng(seed)
    seen, shown, later = np.zeros((rows, LONGEST), np.int64), np.zeros(rows, np.int64), np.zeros((rows, 1), np.float32)
    for row in range(rows):
        length = rng.integers(4, LONGEST + 1)
        seen[row, :length] = rng.permutation(np.arange(2, VOCABULARY))[:length]
        place = rng.integers(length)
        shown[row], later[row] = seen[row, place], place >= length // 2
    return {"seen": seen, "shown": shown}, later


@pytest.mark.integration
@pytest.mark.parametrize(
    "options",
    [
        {"encoder": "gru"},
        {"encoder": "gru", "attend_to": "shown"},
        {"encoder": {"transformer": {"layers": 2}}, "attend_to": "shown", "max_length": 8},
        {"attend_to": "shown", "pooling": "sum"},
        {"attend_to": "shown", "pooling": "attention"},
    ],
)
def test_padding_says_nothing_and_order_counts(options):
    model = model_of(options)
    features, _ = task(20, 0)
    features["seen"][3] = 0  # a row without elements
    narrow = {**features, "seen": features["seen"][:, : int((features["seen"] > 0).sum(1).max())]}
    some = {name: value[:4] for name, value in features.items()}
    some["seen"] = some["seen"][:, : int((some["seen"] > 0).sum(1).max())]
    logits = model(features).numpy()
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(model(narrow), logits, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model(some), logits[:4], rtol=1e-4, atol=1e-6)
    none = {name: value[3:4, :0] if name == "seen" else value[3:4] for name, value in features.items()}
    np.testing.assert_allclose(model(none), logits[3:4], rtol=1e-4, atol=1e-6)  # a request without any elements
    turned = features["seen"].copy()
    turned[0, :4] = turned[0, 3::-1]
    same = np.allclose(model({**features, "seen": turned})[0], logits[0], atol=1e-6)
    assert same == ("encoder" not in options)


def test_target_attention_is_a_mean_by_the_softmax_of_products():
    rng = np.random.default_rng(0)
    vectors, keys = rng.normal(size=(2, 3, 4)).astype(np.float32), rng.normal(size=(2, 3, 5)).astype(np.float32)
    query, present = rng.normal(size=(2, 5)).astype(np.float32), np.array([[True, True, False], [False] * 3])
    scores = np.exp(keys[0, :2] @ query[0] * 5**0.5)
    expected = scores / scores.sum() @ vectors[0, :2]
    np.testing.assert_allclose(TargetAttention()(vectors, keys, query, present), [expected, [0] * 4], rtol=1e-4)
    np.testing.assert_allclose(Last()(vectors, present), [vectors[0, 1], [0] * 4])
    np.testing.assert_allclose(MaskedMean()(vectors, present), [vectors[0, :2].mean(0), [0] * 4], rtol=1e-6)


def accuracy_of(model, train, evaluation, *, epochs):
    """Trains a binary model and returns its accuracy on `evaluation`."""
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss, metrics=[keras.metrics.BinaryAccuracy(threshold=0)])
    model.fit(*train, epochs=epochs, batch_size=128, verbose=0)
    return model.evaluate(*evaluation, verbose=0)[1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "learns"),
    [
        ({"pooling": "mean", "attend_to": "shown"}, False),
        ({"encoder": {"transformer": {"units": 32}}, "attend_to": "shown", "max_length": 8}, True),
        ({"encoder": "gru", "attend_to": "shown"}, True),
    ],
)
def test_an_order_and_a_candidate_are_learned_by_encoders_alone(options, learns):
    accuracy = accuracy_of(model_of(options), task(6000, 1), task(1000, 2), epochs=12)
    assert accuracy > 0.95 if learns else accuracy < 0.6


def sequence_model(how, units=16):
    """Returns a model of `shown` and a sequence of items and prices, with attention of `shown` to the items."""
    item = {"type": "category", "vocabulary": {"shared_with": "shown"}}
    config = PreprocessingConfig.model_validate({
        "features": {"shown": {"type": "category", "encoding": {"embedding": units}}},
        "sequences": {"seen": {"columns": {"item": item, "price": "number"}, "max_length": LONGEST, **how}},
        "label": {"name": "y", "task": "binary"},
    })  # fmt: skip
    inputs = {}
    for output in outputs(config):
        weights = keras.Input((None,), name=output.weights) if output.weights else None
        ids = keras.Input((None,) if output.multi else (), name=output.name, dtype="int64")
        inputs[output.name] = ModelInput(ids, output, 3 if weights is not None else VOCABULARY, weights=weights)
    return built(inputs)


def sequence_task(rows, seed):
    """Returns seen articles with prices, one of them, and whether it is late and cheap or early and expensive."""
    features, later = task(rows, seed)
    items, shown = features["seen"], features["shown"]
    prices = np.random.default_rng(seed).normal(size=items.shape).astype(np.float32)
    cheap = prices[np.arange(rows), (items == shown[:, None]).argmax(1)] < 0
    there = np.where(items > 0, 2, 0)
    given = {"seen.item_xf": items, "seen.price_xf": there, "seen.price.weight_xf": prices * (there > 0)}
    return {"shown_xf": shown, **given}, np.equal(later[:, 0], cheap).astype(np.float32)[:, None]


@pytest.mark.integration
@pytest.mark.parametrize(
    "how",
    [
        {"attend_to": "shown"},
        {"encoder": {"transformer": {"units": 32}}, "attend_to": "shown"},
        {"pooling": "attention"},
        {"pooling": "max"},
    ],
)
def test_the_columns_of_an_element_stay_together(how):
    model = sequence_model(how)
    features, _ = sequence_task(20, 0)
    rows = [name for name in features if name != "shown_xf"]
    for name in rows:
        features[name][3] = 0  # a row without elements
    logits = model(features).numpy()
    assert np.isfinite(logits).all()
    wide = {name: np.pad(value, [(0, 0), (0, 3)]) if name in rows else value for name, value in features.items()}
    if "encoder" not in how:
        np.testing.assert_allclose(model(wide), logits, rtol=1e-4, atol=1e-6)
    none = {name: value[3:4, :0] if name in rows else value[3:4] for name, value in features.items()}
    np.testing.assert_allclose(model(none), logits[3:4], rtol=1e-4, atol=1e-6)
    swapped = features["seen.price.weight_xf"].copy()
    swapped[0, :2] = swapped[0, 1::-1]
    assert not np.allclose(model({**features, "seen.price.weight_xf": swapped})[0], logits[0], atol=1e-7)
    missing = features["seen.price_xf"].copy()
    missing[0, 0] = 1
    assert not np.allclose(model({**features, "seen.price_xf": missing})[0], logits[0], atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "learns"),
    [
        ({"pooling": "mean"}, False),
        ({"attend_to": "shown"}, True),
        ({"encoder": {"transformer": {"units": 32}}, "attend_to": "shown"}, True),
    ],
)
def test_what_depends_on_order_candidate_and_a_second_column_is_learned_by_encoders_alone(how, learns):
    accuracy = accuracy_of(sequence_model(how), sequence_task(8000, 1), sequence_task(1000, 2), epochs=15)
    assert accuracy > 0.95 if learns else accuracy < 0.6
