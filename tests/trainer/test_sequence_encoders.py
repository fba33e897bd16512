"""Encoders read ids in their order: padding says nothing, and an order that a pool cannot know is learned."""

import numpy as np
import pytest

VOCABULARY, LONGEST = 24, 8


def model_of(options, units=16):
    """Returns a model of `shown` and `seen`, and the feature's input."""
    import keras

    from fullpass.preprocessing.features.ids import Embedding
    from fullpass.preprocessing.features.lists import ListOf
    from fullpass.preprocessing.features.outputs import Output
    from fullpass.trainer.config import Mlp
    from fullpass.trainer.models.build_network import build_model
    from fullpass.trainer.models.model_inputs import ModelInput

    said = ListOf.model_validate(options)
    shared = {"encoding": Embedding(embedding=units), "table": "shown"}
    seen = Output(
        "seen", "seen", "ids", multi=True, pooling=said.pooling, encoder=said.encoder, longest=LONGEST,
        attend_to=said.attend_to, **shared,
    )  # fmt: skip
    inputs = {
        "shown": ModelInput(
            keras.Input((), name="shown", dtype="int64"), Output("shown", "shown", "ids", **shared), 24
        ),
        "seen": ModelInput(keras.Input((None,), name="seen", dtype="int64"), seen, VOCABULARY),
    }
    keras.utils.set_random_seed(1)
    return build_model(inputs, task="binary", classes=1, config=Mlp(kind="mlp", hidden=[32]))


def task(rows, seed):
    """Returns lists without repetition, one of their values, and whether that stands in the later half."""
    rng = np.random.default_rng(seed)
    seen, shown, later = np.zeros((rows, LONGEST), np.int64), np.zeros(rows, np.int64), np.zeros((rows, 1), np.float32)
    for row in range(rows):
        length = rng.integers(4, LONGEST + 1)
        seen[row, :length] = rng.permutation(np.arange(2, VOCABULARY))[:length]
        place = rng.integers(length)
        shown[row], later[row] = seen[row, place], place >= length // 2
    return {"seen": seen, "shown": shown}, later


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
    turned = features["seen"].copy()
    turned[0, :4] = turned[0, 3::-1]
    same = np.allclose(model({**features, "seen": turned})[0], logits[0], atol=1e-6)
    assert same == ("encoder" not in options)


def test_target_attention_is_a_mean_by_the_softmax_of_products():
    from fullpass.trainer.models.sequence_encoders import Last, MaskedMean, TargetAttention

    rng = np.random.default_rng(0)
    vectors, keys = rng.normal(size=(2, 3, 4)).astype(np.float32), rng.normal(size=(2, 3, 5)).astype(np.float32)
    query, present = rng.normal(size=(2, 5)).astype(np.float32), np.array([[True, True, False], [False] * 3])
    scores = np.exp(keys[0, :2] @ query[0] * 5**0.5)
    expected = scores / scores.sum() @ vectors[0, :2]
    np.testing.assert_allclose(TargetAttention()(vectors, keys, query, present), [expected, [0] * 4], rtol=1e-4)
    np.testing.assert_allclose(Last()(vectors, present), [vectors[0, 1], [0] * 4])
    np.testing.assert_allclose(MaskedMean()(vectors, present), [vectors[0, :2].mean(0), [0] * 4], rtol=1e-6)


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
    import keras

    model = model_of(options)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss, metrics=[keras.metrics.BinaryAccuracy(threshold=0)])
    model.fit(*task(6000, 1), epochs=12, batch_size=128, verbose=0)
    _, accuracy = model.evaluate(*task(1000, 2), verbose=0)
    assert accuracy > 0.95 if learns else accuracy < 0.6
