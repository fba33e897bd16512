"""A row with an invalid list or image is quarantined with the reason; other rows are unaffected."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image

from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.components.ingest.ingesting import examples, ingest, quarantined, row_id
from tests.image_files import encode_image, png_header
from tests.record_files import write_records

pytestmark = pytest.mark.integration

GREY = np.arange(30, dtype=np.uint8).reshape(5, 6)
GROUP = "sequences.history"
COLUMNS = (
    RawColumn("item", "string", many=True, group=GROUP),
    RawColumn("price", "number", many=True, group=GROUP),
    RawColumn("photo", "string", image=True),
    RawColumn("pixels", "vector", 4),
    RawColumn("title", "string"),
)


def encoded(form="PNG", mode="L", **options):
    return encode_image(GREY, form, mode, **options)


GOOD = {
    "item": [["a"], ["b"]],
    "price": ["1", "2.5"],
    "photo": encoded(),
    "pixels": [0.0, 1.0, 2.0, 3.0],
    "title": b"t",
}
MILLION = 1_000_000
BAD = {
    "an image that cannot be decoded: Invalid PNG data, size 60": {"photo": encoded()[:60]},
    "an image of 0 bytes": {"photo": b""},
    "an image of 10,000 x 10,000 pixels, above 64 million": {"photo": png_header(10_000, 10_000)},
    "no JPEG, PNG, GIF or BMP image": {"photo": b"\xff\xfe"},
    "not 4 numbers long": {"pixels": [0.0, 1.0, 2.0]},
    "a list of lists": {"item": [["a", "b"], ["c"]]},
    f"another length than the other lists of {GROUP}": {"price": ["1"]},
    "in a list: not a number": {"price": ["1", "one"]},
    "a list of more than 65,536 elements": {"item": [["a"]] * MILLION, "price": ["1"] * MILLION},
}
USABLE = [
    {"photo": encoded("GIF", save_all=True, append_images=[Image.fromarray(GREY[::-1].copy())] * 3)},
    *({"photo": encoded(mode=mode)} for mode in ("LA", "RGB", "RGBA", "P")),
    {"photo": encoded("JPEG", "CMYK")},
    {"photo": None, "item": None, "price": None, "pixels": None, "title": None},
    {"title": b"gr\xfcn \xff", "item": [[b"\xff\xfe"], ["b"]]},
]


def ingested(folder, source, columns=COLUMNS):
    """Returns the manifest, the tf.Examples by row, and the quarantine by row."""
    manifest = ingest(folder, source, columns, bad_rows=1.0)
    return manifest, {row_id(e): e for e in examples(folder)}, {row["row"]: row for row in quarantined(folder)}


def test_each_kind_costs_one_row(tmp_path):
    rows = [{**GOOD, **change} for change in [{}, *BAD.values(), *USABLE]]
    kinds = {
        "item": pa.list_(pa.list_(pa.binary())),
        "price": pa.list_(pa.string()),
        "photo": pa.binary(),
        "pixels": pa.list_(pa.float32()),
        "title": pa.binary(),
    }
    for row in rows:
        row["item"] = row["item"] and [[v.encode() if isinstance(v, str) else v for v in e] for e in row["item"]]
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})
    pq.write_table(table, tmp_path / "rows.parquet")
    manifest, examples, bad = ingested(tmp_path, {"format": "parquet", "path": "rows.parquet"})

    assert (manifest.read, sum(manifest.written.values())) == (len(rows), 1 + len(USABLE))
    assert [bad[2 + place]["reason"] for place in range(len(BAD))] == list(BAD)
    assert all(len(row["text"]) <= 1000 for row in bad.values())
    last = examples[len(rows)]
    assert last["title"].bytes_list.value[0] == b"gr\xfcn \xff"
    assert list(last["item"].bytes_list.value) == [b"\xff\xfe", b"b"]
    assert list(examples[1]["price"].float_list.value) == [1.0, 2.5]
    animation = tf.io.decode_image(examples[2 + len(BAD)]["photo"].bytes_list.value[0], expand_animations=False)
    np.testing.assert_array_equal(animation[:, :, 0], GREY)


def test_feature_lists_of_a_sequence_example_likewise(tmp_path):
    def steps(values):
        features = [tf.train.Feature(bytes_list=tf.train.BytesList(value=step)) for step in values]
        return tf.train.FeatureList(feature=features)

    def record(items, prices):
        lists = tf.train.FeatureLists(feature_list={"item": steps(items), "price": steps(prices)})
        return tf.train.SequenceExample(feature_lists=lists).SerializeToString()

    many = [[b"1"]] * 70_000
    rows = [
        record([[b"a"], [b"\xff"]], [[b"1"], [b"2"]]),
        record([[b"a", b"b"], [b"c"]], [[b"1"], [b"2"]]),
        record([[b"a"], [b"b"]], [[b"1"]]),
        record([[b"a"]], [[b"one"]]),
        record(many, many),
        record([], []),
    ]
    write_records(tmp_path / "rows.tfrecord", rows)
    source = {"format": "tfrecord", "path": "rows.tfrecord", "payload": "sequence_example"}
    manifest, examples, bad = ingested(tmp_path, source, COLUMNS[:2])
    assert (manifest.read, sum(manifest.written.values())) == (6, 2)
    assert {row: found["reason"] for row, found in bad.items()} == {
        2: "a list of lists",
        3: f"another length than the other lists of {GROUP}",
        4: "in a list: not a number",
        5: "a list of more than 65,536 elements",
    }
    assert list(examples[1]["item"].bytes_list.value) == [b"a", b"\xff"] and not examples[6]["item"].bytes_list.value
