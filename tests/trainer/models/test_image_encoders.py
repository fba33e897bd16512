"""Images in training and export: the inputs of the model in training, and the outputs of the export."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from fullpass.base.errors import UserError
from fullpass.components.transform.apply_graph import examples_of
from fullpass.preprocessing.analysis.analyze import analyze_table
from fullpass.preprocessing.analysis.traced_preprocessing import adapter_of
from fullpass.preprocessing.apply.transform_batches import BatchTransformer
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.image_feature import ImageFeature
from fullpass.trainer.export.eval_scores import SCORES_FILE, read_scores
from fullpass.trainer.export.sample_requests import write_samples
from fullpass.trainer.fit.steps import Blend, FineTunedVariable, Steps
from fullpass.trainer.input.decoder import decoder, read_blocks
from fullpass.trainer.input.placement import InModel, placement_of
from fullpass.trainer.models.image_encoders import encode_image, fine_tuned_variables
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.model_inputs import transformed_outputs
from fullpass.trainer.run_fn import run_fn
from tests import record_files
from tests.image_files import encode_image as encoded
from tests.trainer.conftest import Prepared, write_records

pytestmark = pytest.mark.integration

ROWS = {"train": 96, "eval": 48}
AUGMENT = {"flip": "both", "crop": 0.2, "cutout": 0.2, "brightness": 0.1}


def drawn(count, seed):
    """Returns images of 12 x 10 pixels with a horizontal or vertical bright bar, and the direction as label."""
    draw = np.random.default_rng(seed)
    pictures, lies = draw.integers(0, 80, (count, 12, 10, 3), dtype=np.uint8), draw.random(count) < 0.5
    for picture, flat in zip(pictures, lies, strict=True):
        place = draw.integers(2, 7)
        picture[(slice(place, place + 2), slice(1, 9)) if flat else (slice(1, 11), slice(place, place + 2))] += 150
    return pictures, lies


def example(picture, lies, price, number):
    label = "yes" if lies else "no"
    row = {"image": encoded(picture), "price": price, "lies": label, "fullpass_row": number}
    return record_files.example(row)


def prepared_in(folder: Path, image, place="input") -> Prepared:
    """Writes raw examples of an image and a number, and a graph that is analyzed in this process."""
    declared = {
        "features": {"image": {"type": "image", "size": [12, 10], "compute_at": place, **image}, "price": "number"},
        "label": {"name": "lies", "task": "binary", "positive": "yes"},
        "compute_at": "input",
    }
    config = PreprocessingConfig.model_validate(declared)
    for seed, (split, count) in enumerate(ROWS.items()):
        pictures, lies = drawn(count, seed)
        rows = [example(*row, float(i), 1000 * seed + i) for i, row in enumerate(zip(pictures, lies, strict=True))]
        write_records(folder / "raw" / split, rows, 1)
        if split == "train":
            decoder = ExamplesToRecordBatchDecoder(raw_schema(config).SerializeToString())
            analyze_table(config, [decoder.DecodeBatch(rows)], str(folder / "graph"))
    prepared = Prepared(folder, config.model_dump(mode="json"), {})
    write_samples(prepared.graph, prepared.files("raw", "eval"))
    return prepared


def fn_args(prepared, output, **training):
    training = {"epochs": 8, "learning_rate": 0.01, "batch_size": 32, **training}
    return prepared.fn_args(
        output, model={"kind": "mlp", "hidden": [8]}, training=training, input={"compute_at": "input"}
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns a model of an image and a number, trained with augmentation, and the folder of its data."""
    folder = tmp_path_factory.mktemp("images")
    prepared = prepared_in(folder / "data", {"encoder": {"cnn": {"width": 8}}, "augment": AUGMENT})
    run_fn(fn_args(prepared, folder / "output"))
    return prepared, folder / "output"


def test_it_learns_what_the_pictures_show_and_answers_from_encoded_bytes(exported):
    loaded = tf.saved_model.load(str(exported[1] / "Format-Serving"))
    pictures, lies = drawn(ROWS["eval"], 1)
    files = tf.constant([encoded(picture, "PNG") for picture in pictures])
    found = loaded.signatures["serving_raw"](image=files, price=tf.zeros(len(lies)))["prediction"].numpy()
    assert np.mean((found == b"yes") == lies) > 0.9
    again = loaded.signatures["serving_raw"](image=files, price=tf.zeros(len(lies)))["prediction"].numpy()
    np.testing.assert_array_equal(found, again)  # the export contains nothing random
    other_form = tf.constant([encoded(picture, "BMP") for picture in pictures])
    from_bmp = loaded.signatures["serving_raw"](image=other_form, price=tf.zeros(len(lies)))["scores"].numpy()
    from_png = loaded.signatures["serving_raw"](image=files, price=tf.zeros(len(lies)))["scores"].numpy()
    np.testing.assert_allclose(from_bmp, from_png, rtol=1e-5)


def test_the_export_answers_as_the_trained_model_did(exported):
    """The scores of the trained model use the input function, those of the export its own graph."""
    prepared, output = exported
    loaded = tf.saved_model.load(str(output / "Format-Serving"))
    records = list(record_files.read_records(*prepared.files("raw", "eval")))
    served = loaded.signatures["serving_default"](examples=tf.constant(records))["scores"].numpy()
    trained = read_scores(str(output / "model_run" / SCORES_FILE))
    np.testing.assert_allclose(served[np.argsort(trained["row_id"])], trained["scores"], rtol=1e-4, atol=1e-5)


def test_requests_hold_images_as_base64(exported):
    lines = (exported[1] / "Format-Serving" / "assets.extra" / "requests.jsonl").read_text().splitlines()
    assert set(json.loads(lines[0])["image"]) == {"b64"}


def test_pixels_are_normalised_by_their_mean_and_deviation_over_train(exported):
    data, *_ = exported[0].loaded(model="mlp", input={"compute_at": "input"})
    pictures, _ = drawn(ROWS["train"], 0)
    pixels = pictures.reshape(-1, 3).astype(np.float64)
    np.testing.assert_allclose(
        data.statistics.moments["image_xf"], [pixels.mean(axis=0), pixels.std(axis=0)], rtol=1e-5
    )


def placed(prepared, place):
    """Returns the config of the data with its image decoded at `place`, and the placement."""
    declared = json.loads(json.dumps(prepared.preprocessing))
    declared["features"]["image"]["compute_at"] = place
    config = PreprocessingConfig.model_validate(declared)
    return config, placement_of(config, transformed_outputs(config, prepared.tft_output))


def test_a_picture_decoded_in_the_model_is_the_same(exported):
    prepared, (pictures, _) = exported[0], drawn(ROWS["eval"], 1)
    _, placement = placed(prepared, "model")
    decode = decoder(prepared.tft_output, placement, placement.read)
    block = next(iter(read_blocks(prepared.files("raw", "eval"), decode, 1)))
    found = InModel(placement, prepared.tft_output).add_model_features(block)["image_xf"]
    np.testing.assert_array_equal(found.numpy(), pictures)


def test_a_picture_decoded_by_transform_is_the_same_in_its_examples(exported):
    prepared, (pictures, _) = exported[0], drawn(ROWS["eval"], 1)
    config, placement = placed(prepared, "transform")
    schema, output = raw_schema(config), prepared.tft_output
    raw = list(record_files.read_records(*prepared.files("raw", "eval")))
    transformer = BatchTransformer(output, adapter_of(schema), without=["price_xf"])
    batch = transformer(ExamplesToRecordBatchDecoder(schema.SerializeToString()).DecodeBatch(raw))
    written = examples_of(batch).to_pylist()
    found = decoder(output, placement, ["image_xf"])(tf.constant(written))["image_xf"]
    assert found.dtype == tf.uint8
    np.testing.assert_array_equal(found.numpy(), pictures)


def test_a_narrow_network_learns_from_batches_of_any_size():
    """Trains each network in turn: a 1 x 1 convolution with few channels once crashed the process there."""
    feature = ImageFeature.model_validate({"type": "image", "size": [12, 10], "encoder": {"cnn": {"width": 8}}})
    images = keras.Input((12, 10, 3))
    model = keras.Model(images, keras.layers.Dense(1)(encode_image(images, feature, "image_xf")))

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, 12, 10, 3])])
    def gradients(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(batch, training=True)))
        return tape.gradient(loss, model.trainable_variables)

    pixels = np.random.default_rng(0).random((32, 12, 10, 3), np.float32)
    for rows in (32, 15, 32, 7) * 3:
        assert all(np.isfinite(found).all() for found in gradients(tf.constant(pixels[:rows])))


def test_a_stride_halves_the_image_and_keeps_the_stages_after_it():
    def sides(size, stride):
        feature = ImageFeature.model_validate(
            {"type": "image", "size": [size, size], "encoder": {"cnn": {"stride": stride}}}
        )
        images = keras.Input((size, size, 1))
        model = keras.Model(images, encode_image(images, feature, "image_xf"))
        convolutions = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
        return [layer.output.shape[1] for layer in convolutions], model.output.shape[-1]

    assert sides(28, 1) == ([28, 28, 28, 14, 14, 7, 7], 128)
    assert sides(28, 2) == ([14, 14, 14, 7, 7], 64)


def test_mixup_blends_images_and_labels():
    images = np.arange(4 * 2 * 2, dtype=np.uint8).reshape(4, 2, 2, 1) * 10
    blend = Blend(("image",), 0.5, seed=3)
    label, weight = tf.constant([0.0, 1.0, 0.0, 1.0]), tf.constant([1.0, 1.0, 2.0, 0.0])
    features, blended = blend({"image": tf.constant(images)}, label, weight, tf.constant(5))
    share = float(blended.weight[0])
    expected = np.round(share * images + (1 - share) * np.roll(images, 1, axis=0).astype(np.float32))
    np.testing.assert_allclose(features["image"].numpy(), expected, atol=1)
    total = float(tf.reduce_sum(blended.weight) + tf.reduce_sum(blended.other_weight))
    assert total == pytest.approx(4.0) and blended.other_label.numpy().tolist() == [1, 0, 1, 0]
    again = blend({"image": tf.constant(images)}, label, weight, tf.constant(5))[1]
    other = blend({"image": tf.constant(images)}, label, weight, tf.constant(6))[1]
    assert float(again.weight[0]) == share != float(other.weight[0])


def test_pretrained_weights_come_from_their_file_and_stay_or_follow_slowly(tmp_path):
    keras.utils.set_random_seed(5)
    network = keras.applications.MobileNetV2(include_top=False, weights=None, input_shape=(32, 32, 3), pooling="avg")
    network.save_weights(tmp_path / "mobile.weights.h5")
    pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3)).astype(np.float32)
    expected = network(keras.applications.mobilenet_v2.preprocess_input(pixels.copy()), training=False).numpy()
    written = {"architecture": "MobileNetV2", "weights": str(tmp_path / "mobile.weights.h5")}
    for train, learns in (("frozen", 0), ("fine_tune", len(network.trainable_variables))):
        encoder = {"pretrained": {**written, "train": train}}
        feature = ImageFeature.model_validate({"type": "image", "size": [32, 32], "encoder": encoder})
        images = keras.Input((32, 32, 3))
        model = keras.Model(images, encode_image(images, feature, "image_xf"))
        np.testing.assert_allclose(model(pixels, training=True).numpy(), expected, rtol=1e-4, atol=1e-5)
        assert len(model.trainable_variables) == learns == len(fine_tuned_variables(model, {"image_xf": feature}))


def test_a_slow_variable_stays_at_first_and_then_follows_a_share_of_the_update():
    inputs = keras.Input((2,), name="x")
    hidden = keras.layers.Dense(3, use_bias=False, name="slow")
    model = keras.Model({"x": inputs}, keras.layers.Dense(1, use_bias=False, name="fast")(hidden(inputs)))
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    fine_tuned = {id(hidden.kernel): FineTunedVariable(frozen_updates=1, share=0.25)}
    strategy = tf.distribute.get_strategy()
    steps = Steps(model, optimizer, loss_of("regression"), "regression", strategy, fine_tuned=fine_tuned)
    batch = {"x": tf.constant([[1.0, 2.0], [3.0, -1.0]])}, tf.constant([1.0, 0.0]), tf.ones(2)
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    first, run = hidden.kernel.numpy(), steps.training()
    run(batches, 1)
    np.testing.assert_array_equal(hidden.kernel.numpy(), first)
    _, gradients = steps.gradients(*batch, tf.constant(2.0))
    run(batches, 1)
    np.testing.assert_allclose(hidden.kernel.numpy(), first - 0.25 * 0.1 * gradients[0].numpy(), rtol=1e-5)


def test_weights_that_do_not_fit_are_named(tmp_path):
    (tmp_path / "bad.weights.h5").write_bytes(b"none")
    written = {"architecture": "MobileNetV2", "weights": str(tmp_path / "bad.weights.h5")}
    feature = ImageFeature(type="image", size=(32, 32), encoder={"pretrained": written})
    with pytest.raises(UserError, match="bad.weights.h5"):
        encode_image(keras.Input((32, 32, 3)), feature, "image_xf")
    with pytest.raises(UserError, match="MobileNetV2"):
        wrong = feature.encoder.model_copy(update={"architecture": "MobileNetV3"})
        encode_image(keras.Input((32, 32, 3)), feature.model_copy(update={"encoder": wrong}), "image_xf")
