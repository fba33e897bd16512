"""Tables inside an export give the columns of hand-written rows, also after saving and loading."""

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.row_keys import KEY
from fullpass.trainer.export.joined_tables import JoinedTable
from fullpass.trainer.input.raw_tensors import to_dense

COLUMNS = {
    "t.seats": RawColumn("t.seats", "number"),
    "t.maker": RawColumn("t.maker", "string"),
}


def table(keys, names, decimal="."):
    rows = pa.table({KEY: pa.array(keys, pa.binary()), "t.seats": pa.array([5.5, None], pa.float32()),
                     "t.maker": pa.array([None, b"Airbus"], pa.binary()), "t.unread": pa.array([1, 2])})  # fmt: skip
    return JoinedTable(
        "t", [RawColumn(name, kind, token=kind == "string") for name, kind in names.items()], rows, COLUMNS, decimal
    )


def sparse(values, dtype=tf.string):
    present = [i for i, value in enumerate(values) if value is not None]
    cells = tf.constant([values[i] for i in present], dtype)
    return tf.SparseTensor(tf.constant([[i, 0] for i in present], tf.int64, [len(present), 2]), cells, [len(values), 1])


def looked_up(rows, raw, count):
    found = rows.look_up(raw, tf.constant(count, tf.int64))
    return {name: to_dense(found[name], column).numpy().tolist() for name, column in COLUMNS.items()}


def test_a_key_gives_the_columns_of_its_row_and_an_unknown_one_missing_values():
    found = looked_up(table([b"7", b"N1"], {"k": "string"}), {"k": sparse(["N1", "7.0", None, "n1", "", "7"])}, 6)
    assert found["t.maker"] == [b"Airbus", b"", b"", b"", b"", b""]
    np.testing.assert_array_equal(found["t.seats"], [np.nan, 5.5, np.nan, np.nan, np.nan, 5.5])


def test_a_key_of_a_decimal_comma_is_found_in_every_spelling():
    rows = table([b"7", b"1.000"], {"k": "string"}, ",")
    assert looked_up(rows, {"k": sparse(["7,0", "7", "1.000", "1"])}, 4)["t.maker"] == [b"", b"", b"Airbus", b""]


def test_a_number_is_found_by_its_token():
    raw = {"k": sparse([7.0, 7.5, None], tf.float32)}
    found = looked_up(table([b"7", b"7.5"], {"k": "number"}), raw, 3)
    assert found["t.maker"] == [b"", b"Airbus", b""]


def test_a_key_of_several_columns_is_found_if_it_is_complete():
    rows = table([b"a\x1fb", b"c\x1f"], {"k": "string", "l": "string"})
    raw = {"k": sparse(["a", "c", "a", "a\x1fb"]), "l": sparse(["b", None, "c", ""])}
    np.testing.assert_array_equal(looked_up(rows, raw, 4)["t.seats"], [5.5, np.nan, np.nan, np.nan])
    assert rows.look_up({"k": raw["k"]}, tf.constant(4, tf.int64)) == {}


def test_a_number_of_a_table_finds_rows_of_the_next_by_all_its_digits():
    columns = {"a.id": RawColumn("a.id", "number"), "b.v": RawColumn("b.v", "number")}
    ids = pa.table(
        {KEY: pa.array([b"x", b"y", b"z"]), "a.id": pa.array([b"16777217", b"16777216", None])}
    )  # equal as float32
    values = pa.table({KEY: pa.array([b"16777217", b"16777216"]), "b.v": pa.array([1, 2], pa.float32())})
    first = JoinedTable("a", [RawColumn("k", "string", token=True)], ids, columns)
    second = JoinedTable("b", [columns["a.id"]], values, columns)
    batch = tf.constant(4, tf.int64)
    raw = {"k": sparse(["x", "y", "z", "w"])}
    raw |= first.look_up(raw, batch)
    raw |= second.look_up(raw, batch)
    np.testing.assert_array_equal(to_dense(raw["b.v"], columns["b.v"]), [1, 2, np.nan, np.nan])
    np.testing.assert_array_equal(to_dense(raw["a.id"], columns["a.id"]), [2**24, 2**24, np.nan, np.nan])


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
def test_a_saved_table_answers_as_before(tmp_path):
    module = tf.Module()
    module.table = table([b"7", b"N1"], {"k": "string"})

    @tf.function(autograph=False, input_signature=[tf.SparseTensorSpec([None, 1], tf.string)])
    def maker(key):
        found = module.table.look_up({"k": key}, key.dense_shape[0])
        return to_dense(found["t.maker"], COLUMNS["t.maker"])

    module.maker = maker
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert loaded.maker(sparse(["N1", "N2", "N1"])).numpy().tolist() == [b"Airbus", b"", b"Airbus"]
