"""`init` proposes sequences for lists that belong together, and `check --data` finds nothing wrong with them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.pipeline.authoring.data_check.data_check import check_data
from fullpass.pipeline.authoring.init.init import init
from fullpass.pipeline.authoring.loading.load import load

COLUMNS = {"item": "category", "price": "number", "at": "date"}


def baskets(rows=300):
    """Returns rows with a list of 0 to 5 objects each, a list of another length, and what all rows have."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(rows):
        basket = [
            {"item": str(random.choice(list("abc"))), "price": random.normal(), "at": f"2024-01-{day:02d}"}
            for day in random.integers(1, 28, random.integers(0, 6))
        ]
        tags = random.choice(["new", "old", "red"], random.integers(1, 4)).tolist()
        found.append({"basket": basket, "tags": tags, "age": random.normal(), "bought": str(random.choice(["y", "n"]))})
    return found


def write(rows, file):
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    elif file.suffix == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        _write_sequence_examples(rows, file)
    return str(file)


def _write_sequence_examples(rows, file):
    import tensorflow as tf

    def value(one):
        if isinstance(one, str):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[one.encode()]))
        return tf.train.Feature(float_list=tf.train.FloatList(value=[one]))

    with tf.io.TFRecordWriter(str(file)) as writer:
        for row in rows:
            lists = {key: [value(element[key]) for element in row["basket"]] for key in COLUMNS}
            lists["tags"] = [value(tag) for tag in row["tags"]]
            example = tf.train.SequenceExample(
                context=tf.train.Features(feature={key: value(row[key]) for key in ("age", "bought")}),
                feature_lists=tf.train.FeatureLists(
                    feature_list={key: tf.train.FeatureList(feature=values) for key, values in lists.items()}
                ),
            )
            writer.write(example.SerializeToString())


@pytest.mark.integration
@pytest.mark.parametrize(
    ("file", "name", "within"),
    [("a.parquet", "basket", "basket"), ("a.jsonl", "basket", "basket"), ("a.tfrecord", "sequence", None)],
)
def test_lists_of_one_length_are_a_sequence(tmp_path, file, name, within):
    written = init(write(baskets(), tmp_path / file), output=str(tmp_path / "p.yaml"), label="bought")
    loaded = load(tmp_path / "p.yaml")
    (found,) = loaded.config.sequences.items()
    assert found[0] == name and found[1].within == within
    assert {key: column.type for key, column in found[1].columns.items()} == COLUMNS
    assert found[1].max_length == 5 and found[1].keep == "last"
    assert set(loaded.config.features) == {"tags", "age"} and loaded.config.features["tags"].list is not None
    assert ", 1 sequence, from" in written.summary[0] and "left out" not in " ".join(written.summary)
    assert not check_data(loaded).has_errors


def test_a_list_alone_and_lists_of_unlike_lengths_stay_lists(tmp_path):
    rows = [{**row, "basket": [{"item": element["item"]} for element in row["basket"]]} for row in baskets()]
    init(write(rows, tmp_path / "a.parquet"), output=str(tmp_path / "p.yaml"), label="bought")
    config = load(tmp_path / "p.yaml").config
    assert not config.sequences and set(config.features) == {"basket.item", "tags", "age"}
