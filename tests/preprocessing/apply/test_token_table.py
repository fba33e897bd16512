"""The table of several vocabularies, from files and from given tokens."""

import tensorflow as tf

from fullpass.preprocessing.apply.token_table import _Fill


def table_of(tmp_path, files, given, prefixes):
    paths = {}
    for number, tokens in files.items():
        path = tmp_path / f"{number}"
        path.write_bytes(b"".join(token + b"\n" for token in tokens))
        paths[number] = tf.constant(str(path))
    fill = _Fill(paths, given, prefixes)
    return tf.lookup.StaticHashTable(fill, -1), fill.sizes


def test_slots_are_the_lines_of_each_file_and_the_positions_of_given_tokens(tmp_path):
    table, sizes = table_of(
        tmp_path, {0: [b"a", b"b c", b"\xff"], 2: [b"b"]}, {1: ["b", "a"], 3: ["x"]}, ["0 ", "1 ", "2 ", "3 "]
    )
    assert sizes == [3, 2, 1, 1]
    keys = [b"0 a", b"0 b c", b"0 \xff", b"1 b", b"1 a", b"2 b", b"3 x", b"2 a", b"0 ", b"a"]
    assert table.lookup(tf.constant(keys)).numpy().tolist() == [0, 1, 2, 0, 1, 0, 0, -1, -1, -1]


def test_a_table_without_files_and_one_without_given_tokens(tmp_path):
    given, sizes = table_of(tmp_path, {}, {0: ["a", "b"]}, [""])
    assert (given.lookup(tf.constant(["b", "c"])).numpy().tolist(), sizes) == ([1, -1], [2])
    read, sizes = table_of(tmp_path, {0: [b"a", b"b"]}, {}, [""])
    assert (read.lookup(tf.constant(["b", "c"])).numpy().tolist(), sizes) == ([1, -1], [2])


def test_a_saved_table_reads_its_files_from_the_assets(tmp_path):
    module = tf.Module()
    module.table, _ = table_of(tmp_path, {0: [b"a"], 1: [b"b", b"a"]}, {}, ["0 ", "1 "])
    keys = tf.TensorSpec([None], tf.string)
    module.find = tf.function(module.table.lookup, autograph=False, input_signature=[keys])
    tf.saved_model.save(module, str(tmp_path / "saved"))
    moved = (tmp_path / "saved").rename(tmp_path / "moved")
    for name in ("0", "1"):
        (tmp_path / name).unlink()
    assert sorted(file.name for file in (moved / "assets").iterdir()) == ["0", "1"]
    loaded = tf.saved_model.load(str(moved))
    assert loaded.find(tf.constant(["0 a", "1 a", "0 b"])).numpy().tolist() == [0, 1, -1]
