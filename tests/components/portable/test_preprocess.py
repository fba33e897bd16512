"""The steps without TensorFlow, against TensorFlow's operations."""

import numpy as np
import pytest
import tensorflow as tf

from fullpass.components.portable.preprocess import STEPS, fingerprint

_FLOATS = np.array([[0.5, -2.0, 3.0], [np.nan, 1e9, -0.25]], np.float32)
_TEXTS = np.array([b"Flash Cab", b"", b" 3067.0 ", "Größe".encode(), b"\xff\xfe", b"x" * 70], object)
CASES = [
    ("AsString", [_FLOATS], {"precision": 9, "shortest": True}),
    ("AsString", [np.array([7, -3], np.int64)], {}),
    ("Cast", [_FLOATS[0]], {"DstT": np.int64}),
    ("Cumsum", [_FLOATS[:1], np.int32(1)], {"exclusive": True, "reverse": True}),
    ("FloorDiv", [np.array([7, -7], np.int64), np.array([2, 2], np.int64)], {}),
    ("FloorMod", [np.array([7, -7], np.int64), np.array([5, 5], np.int64)], {}),
    ("GatherV2", [_FLOATS, np.array([[2, 0], [1, 1]]), np.int32(1)], {"batch_dims": 1}),
    ("LowerBound", [np.array([[1.0, 2.0, 2.0, 5.0]]), np.array([[0.0, 2.0, 9.0]])], {"out_type": np.int64}),
    ("UpperBound", [np.array([[1.0, 2.0, 2.0, 5.0]]), np.array([[0.0, 2.0, 9.0]])], {"out_type": np.int64}),
    ("Round", [np.array([0.5, 1.5, -2.5])], {}),
    ("StaticRegexFullMatch", [_TEXTS], {"pattern": r"[A-Z].*"}),
    ("StaticRegexReplace", [_TEXTS], {"pattern": r"(\d+)\.0", "rewrite": r"<\1>", "replace_global": False}),
    ("StringJoin", [_TEXTS, _TEXTS[::-1].copy()], {"separator": "|"}),
    ("StringLower", [_TEXTS[:4]], {"encoding": "utf-8"}),
    ("StringStrip", [_TEXTS], {}),
    ("Substr", [_TEXTS[:1], np.int32(2), np.int32(4)], {}),
    ("Sum", [_FLOATS[:1], np.array([1])], {"keep_dims": True}),
    ("Unpack", [_FLOATS], {"num": 3, "axis": 1}),
]
_NAMED = {
    "Cast": ("x",),
    "Cumsum": ("x", "axis"),
    "GatherV2": ("params", "indices", "axis"),
    "LowerBound": ("sorted_inputs", "values"),
    "UpperBound": ("sorted_inputs", "values"),
    "Round": ("x",),
    "Substr": ("input", "pos", "len"),
    "Sum": ("input", "axis"),
    "Unpack": ("value",),
    "FloorDiv": ("x", "y"),
    "FloorMod": ("x", "y"),
}


@pytest.mark.parametrize(("name", "inputs", "options"), CASES)
def test_a_step_is_the_operation_of_its_name(name, inputs, options):
    given = dict(zip(_NAMED.get(name, ("input",)), inputs, strict=False))
    if name == "StringJoin":
        given = {"inputs": inputs}
    own = {key: tf.as_dtype(v).name if isinstance(v, type) else v for key, v in options.items()}
    expected = getattr(tf.raw_ops, name)(**given, **{k: v for k, v in options.items() if k != "DstT"}, **_dst(options))
    found = STEPS[name](*inputs, **own)
    for left, right in zip(*(v if isinstance(v, list) else [v] for v in (found, expected)), strict=True):
        np.testing.assert_array_equal(left, right.numpy())
        assert left.dtype.kind == right.numpy().dtype.kind


def _dst(options):
    return {"DstT": options["DstT"]} if "DstT" in options else {}


def test_texts_have_the_fingerprint_of_tensorflow():
    drawn = np.random.default_rng(0)
    texts = [drawn.bytes(length) for length in [*range(140), 192, 256, 257, 1000]]
    buckets = 2**62 + 1
    expected = tf.strings.to_hash_bucket_fast(tf.constant(texts), buckets).numpy().tolist()
    assert [fingerprint(text) % buckets for text in texts] == expected
