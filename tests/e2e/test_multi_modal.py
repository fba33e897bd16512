"""A photo, a swatch of pixels, a title, a price and a brand in one model, from files to predictions of the push."""

import base64
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image

from tests.e2e.conftest import Owner
from tests.record_files import example

pytestmark = [pytest.mark.e2e, pytest.mark.long]

ROWS, NEW = 120, 6
SWATCH = (4, 4, 3)
WORDS = "red blue small large warm new used light heavy plain with without".split()
NO_UTF8 = b"gr\xfcn \xff"
BRANDS = (b"acme", b"bolt", b"crux", NO_UTF8)
COLUMNS = {
    "photo": pa.string(),
    "title": pa.binary(),
    "price": pa.float64(),
    "brand": pa.binary(),
    "swatch": pa.list_(pa.uint8()),
}
YAML = """\
name: shop
data:
  source: {format: images, path: shop.parquet, labels: manifest, path_column: photo}
  split: {method: random, ratios: {train: 3, eval: 1}}
label: {name: sold, task: binary, positive: "yes"}
features:
  image: {type: image, size: [32, 32], augment: {flip: horizontal}, encoder: {cnn: {width: 8}}}
  swatch: {type: image, pixels: [4, 4, 3], size: [4, 4], encoder: {cnn: {width: 8}}}
  title: {type: text, output: ids, max_length: 8, encoder: gru}
  price: number
  brand: category
model: {kind: mlp, hidden: [16]}
training: {epochs: 2, learning_rate: 0.02, batch_size: 16}
evaluation: {thresholds: {auc: {min: 0.01}}, slices: [[brand]]}
push: {to: serving/}
"""


def write_photo(folder, name, bright, random):
    pixels = random.integers(0, 90, (32, 32, 3)) + (150 if bright else 0)
    Image.fromarray(pixels.astype(np.uint8)).save(folder / name)
    return name


def shop(folder, name, count, seed):
    """Writes photos and returns rows that name them. Bright items and acme items are sold. Some text is not UTF-8."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        bright, brand = random.random() < 0.5, BRANDS[random.integers(len(BRANDS))]
        row = {
            "photo": write_photo(folder, f"{name}{number}.png", bright, random),
            "title": " ".join(random.choice(WORDS, random.integers(2, 9))).encode() if number % 9 else NO_UTF8,
            "price": round(random.gamma(2, 20), 2),
            "brand": brand,
            "swatch": random.integers(0, 256, np.prod(SWATCH)).tolist(),
        }
        rows.append({**row, "sold": "yes" if bright or brand == b"acme" else "no"})
    return rows


def write_table(path, rows, kinds):
    pq.write_table(pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}), path)


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    owner = Owner(tmp_path_factory.mktemp("shop"), "shop", YAML)
    write_table(owner.folder / "shop.parquet", shop(owner.folder, "", ROWS, 1), {**COLUMNS, "sold": pa.string()})
    owner("run", "pipeline.yaml")
    return owner


@pytest.fixture(scope="module")
def rows(owner):
    """New rows; one has a JPEG, and in one every value that may be missing or unseen is so."""
    rows = shop(owner.folder, "new", NEW, 2)
    with Image.open(owner.folder / rows[1]["photo"]) as image:
        image.save(owner.folder / "new1.jpg")
    rows[1]["photo"] = "new1.jpg"
    rows[2] |= {"title": b"never seen", "price": None, "brand": None, "swatch": None}
    for row in rows:
        row["image"] = (owner.folder / row["photo"]).read_bytes()
    return rows


@pytest.fixture(scope="module")
def predicted(owner, rows):
    """Returns the predictions of `fullpass predict` for the rows; one row with a broken photo follows them."""
    (owner.folder / "broken.png").write_bytes(rows[0]["image"][:100])
    write_table(owner.folder / "new.parquet", [*rows, {**rows[0], "photo": "broken.png"}], COLUMNS)
    owner("predict", "serving", "new.parquet", "-o", "out.jsonl")
    return [json.loads(line) for line in (owner.folder / "out.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def signatures(owner):
    return tf.saved_model.load(str(owner.versions()[-1])).signatures


def test_the_model_is_pushed_and_parity_holds(owner):
    told = owner.summary()
    assert told["blessed"] and told["pushed_to"]
    (report,) = owner.root.glob("Parity/*/*/parity.json")
    compared = json.loads(report.read_text())
    assert {each["rows"] for each in compared} == {told["rows"]["eval"]} and told["rows"]["eval"] > 20
    assert not any(each["mismatches"] for each in compared)


def test_a_broken_photo_costs_its_row_only(predicted):
    *said, bad = predicted
    assert "truncated" in bad["bad_row"] and bad.get("prediction") is None
    more_likely = ["yes" if row["probability_yes"] > 0.5 else "no" for row in said]
    assert [row["prediction"] for row in said] == more_likely and len(said) == NEW
    assert len({round(row["probability_yes"], 4) for row in said}) == NEW, "the rows are not alike"


def assert_same(answer, predicted):
    expected = predicted[:NEW]
    found = answer["probabilities"].numpy()[:, 1]
    np.testing.assert_allclose(found, [row["probability_yes"] for row in expected], rtol=1e-4, atol=1e-5)
    assert [text.decode() for text in answer["prediction"].numpy()] == [row["prediction"] for row in expected]


def as_tf_serving_reads(request, signature):
    """Returns the inputs of a TF Serving REST request as tensors of the signature's dtypes; `{"b64": ...}` is bytes."""

    def bytes_or_object(given):
        return base64.b64decode(given["b64"]) if set(given) == {"b64"} else given

    read = json.loads(request, object_hook=bytes_or_object)["inputs"]
    return {key: tf.constant(read[key], spec.dtype) for key, spec in signature.structured_input_signature[1].items()}


def as_base64(value):
    return {"b64": base64.b64encode(value or b"").decode()}


def test_json_with_base64_and_pixels_is_answered_as_predict_does(signatures, rows, predicted):
    nothing = float("nan")
    inputs = {
        "image": [as_base64(row["image"]) for row in rows],
        "swatch": [row["swatch"] or [nothing] * int(np.prod(SWATCH)) for row in rows],
        "title": [as_base64(row["title"]) for row in rows],
        "price": [nothing if row["price"] is None else row["price"] for row in rows],
        "brand": [as_base64(row["brand"]) for row in rows],
    }
    signature = signatures["serving_raw"]
    request = json.dumps({"signature_name": "serving_raw", "inputs": inputs})
    assert_same(signature(**as_tf_serving_reads(request, signature)), predicted)


def test_the_export_brings_such_a_request(owner, signatures):
    signature = signatures["serving_raw"]
    request = (owner.versions()[-1] / "assets.extra" / "request.json").read_text()
    inputs = as_tf_serving_reads(request, signature)
    assert inputs["image"][0].numpy().startswith(b"\x89PNG") and inputs["swatch"].shape[1] == np.prod(SWATCH)
    assert len(signature(**inputs)["prediction"]) == len(inputs["image"])


def as_example(row):
    missing = {"price": [], "swatch": []}
    given = {name: value for name, value in row.items() if name != "sold" and name != "photo" and value is not None}
    return example(missing | given | {"swatch": [float(value) for value in row["swatch"] or ()]})


def test_examples_are_answered_as_predict_does(signatures, rows, predicted):
    assert_same(signatures["serving_default"](examples=tf.constant([as_example(row) for row in rows])), predicted)
