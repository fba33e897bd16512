"""A picture, a title, a price and a list of tags in one table: from `init` to a pushed model, and what it answers."""

import base64
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image
from ruamel.yaml import YAML

from tests.e2e.conftest import Owner

pytestmark = pytest.mark.e2e

ROWS, NEW = 300, 6
WORDS = "red blue small large warm new used light heavy plain with without".split()
COLUMNS = {"photo": pa.binary(), "title": pa.string(), "price": pa.float64(), "tags": pa.list_(pa.string())}


def photo(bright, random, form):
    pixels = random.integers(0, 90, (14, 10, 3), dtype=np.uint8) + (150 if bright else 0)
    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(stream, form)
    return stream.getvalue()


def shop(rows, seed):
    """Returns rows of which those with a bright picture, or a tag `sale`, are sold."""
    random = np.random.default_rng(seed)
    table = []
    for _ in range(rows):
        bright, sale = random.random() < 0.4, random.random() < 0.3
        tags = [*random.choice(["shoe", "hat", "coat", "bag"], random.integers(0, 4)), *(["sale"] if sale else [])]
        title = " ".join(random.choice(WORDS, random.integers(4, 9)))
        row = {"photo": photo(bright, random, "PNG"), "title": title, "price": round(random.gamma(2, 20), 2)}
        table.append({**row, "tags": tags, "sold": "yes" if bright or sale else "no"})
    return table


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """Has run what `init` wrote, in fewer epochs and with a smaller network, and pushed its model."""
    owner = Owner(tmp_path_factory.mktemp("shop"), "shop", "")
    owner.config.unlink()
    pq.write_table(pa.Table.from_pylist(shop(ROWS, 1)), owner.folder / "shop.parquet")
    owner("init", "shop.parquet", "--label", "sold")
    yaml = YAML()
    written = yaml.load(owner.config)
    kinds = {name: given if isinstance(given, str) else given["type"] for name, given in written["features"].items()}
    assert kinds == {"photo": "image", "title": "text", "price": "number", "tags": "category"}
    written["training"] = {"epochs": 8}
    written["features"]["photo"]["encoder"] = {"cnn": {"width": 8}}
    yaml.dump(written, owner.config)
    owner("run", "pipeline.yaml")
    return owner


def test_the_model_is_pushed_and_parity_holds(owner):
    told = owner.summary()
    assert told["blessed"] and told["pushed_to"]
    assert told["parity"]["mismatches"] == 0 and told["parity"]["rows"] == told["rows"]["eval"]


def as_tf_serving_reads(request):
    """Returns the inputs of a request of TF Serving's REST API: a list each, bytes for `{"b64": ...}`."""

    def bytes_or_object(given):
        return base64.b64decode(given["b64"]) if set(given) == {"b64"} else given

    return json.loads(request, object_hook=bytes_or_object)["inputs"]


def as_example(row):
    def texts(values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    feature = {"title": texts([row["title"].encode()])}
    if row["photo"] is not None:
        feature["photo"] = texts([row["photo"]])
    if row["price"] is not None:
        feature["price"] = tf.train.Feature(float_list=tf.train.FloatList(value=[row["price"]]))
    if row["tags"]:
        feature["tags"] = texts([tag.encode() for tag in row["tags"]])
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def test_json_with_base64_and_examples_are_answered_as_predict_does(owner):
    random = np.random.default_rng(2)
    rows = [{name: row[name] for name in COLUMNS} for row in shop(NEW, 3)]
    rows[1] |= {"photo": photo(True, random, "JPEG"), "tags": []}
    rows[2] |= {"photo": None, "price": None, "tags": ["never seen", "sale"]}
    longest = max(len(row["tags"]) for row in rows)
    inputs = {
        "photo": [{"b64": base64.b64encode(row["photo"] or b"").decode()} for row in rows],
        "title": [row["title"] for row in rows],
        "price": [float("nan") if row["price"] is None else row["price"] for row in rows],
        "tags": [[*row["tags"], *[""] * (longest - len(row["tags"]))] for row in rows],
    }
    model = tf.saved_model.load(str(owner.versions()[-1]))
    by_column = model.signatures["serving_raw"]
    specs = by_column.structured_input_signature[1]
    read = as_tf_serving_reads(json.dumps({"signature_name": "serving_raw", "inputs": inputs}))
    of_json = by_column(**{key: tf.constant(read[key], spec.dtype) for key, spec in specs.items()})
    of_examples = model.signatures["serving_default"](examples=tf.constant([as_example(row) for row in rows]))

    broken = {**rows[0], "photo": b"\x89PNG\xff\xfe"}
    given = pa.table({name: pa.array([row[name] for row in [*rows, broken]], kind) for name, kind in COLUMNS.items()})
    pq.write_table(given, owner.folder / "new.parquet")
    owner("predict", "serving", "new.parquet", "-o", "out.jsonl")
    *said, bad = [json.loads(line) for line in (owner.folder / "out.jsonl").read_text().splitlines()]
    assert "no JPEG" in bad["bad_row"] and "photo" not in said[0]
    predicted = [row["probability_yes"] for row in said]
    assert max(predicted) - min(predicted) > 0.2, "the rows are not alike"
    for found in (of_json, of_examples):
        np.testing.assert_allclose(found["scores"].numpy().reshape(NEW, -1)[:, -1], predicted, rtol=1e-4, atol=1e-5)
        assert [text.decode() for text in found["prediction"].numpy()] == [row["prediction"] for row in said]
