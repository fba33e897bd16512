"""Raw examples that are parsed to dense columns."""

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.trainer.input.raw_examples import dense_columns

COLUMNS = {
    "fare": RawColumn("fare", "number"),
    "kind": RawColumn("kind", "string"),
    "place": RawColumn("place", "vector", width=2),
    "tags": RawColumn("tags", "string", many=True),
    "stops": RawColumn("stops", "number", many=True),
}
nan = float("nan")


def example(**cells):
    def feature(values):
        if isinstance(values[0], str):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode() for text in values]))
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    features = {name: feature(values) for name, values in cells.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_missing_cells_and_lists_of_any_length_are_dense():
    rows = [
        example(fare=[1.5], kind=["a"], place=[1, 2], tags=["x"], other=[7]),
        example(),
        example(kind=["é"], place=[nan, 4], tags=["y", "", "z"], stops=[3, 4]),
    ]
    found = {name: value.numpy().tolist() for name, value in dense_columns(tf.constant(rows), COLUMNS).items()}
    wanted = {
        "fare": [1.5, nan, nan],
        "kind": [b"a", b"", "é".encode()],
        "place": [[1, 2], [nan, nan], [nan, 4]],
        "tags": [[b"x", b"", b""], [b"", b"", b""], [b"y", b"", b"z"]],
        "stops": [[nan, nan], [nan, nan], [3, 4]],
    }
    assert list(found) == list(wanted)
    for name, values in wanted.items():
        np.testing.assert_array_equal(np.array(found[name]), np.array(values), name)


def test_no_rows_are_columns_without_rows():
    shapes = {n: value.shape for n, value in dense_columns(tf.zeros([0], tf.string), COLUMNS).items()}
    assert shapes == {"fare": [0], "kind": [0], "place": [0, 2], "tags": [0, 0], "stops": [0, 0]}
