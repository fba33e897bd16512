"""The steps without TensorFlow, against TensorFlow's operations."""

import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fullpass.components.portable.export_portable import standalone_source
from fullpass.components.portable.preprocess import STEPS
from fullpass.components.portable.re2 import python_pattern, python_template
from fullpass.components.portable.steps.farmhash import farm_fingerprint
from fullpass.preprocessing.expressions.number_text import number_text

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
    ("StringJoin", [_TEXTS, _TEXTS[::-1].copy()], {"separator": "|"}),
    ("StringLower", [_TEXTS[:4]], {"encoding": "utf-8"}),
    ("StringStrip", [_TEXTS], {}),
    ("StringSplitV2", [_TEXTS, np.array(b"a", object)], {}),
    ("StringSplitV2", [_TEXTS, np.array(b"", object)], {}),
    ("UnsortedSegmentSum", [np.float32([1, 2, 3, 4]), np.array([2, 0, 2, -1]), np.int32(4)], {}),
    ("UnsortedSegmentMax", [np.float32([1, 2, 3, 4]), np.array([2, 0, 2, -1]), np.int32(4)], {}),
    ("UnsortedSegmentMax", [np.array([5, 7]), np.array([1, 1]), np.int32(2)], {}),
    ("Prod", [np.array([3, 4]), np.array([0])], {}),
    ("Where", [np.array([[True, False], [False, True]])], {}),
    ("StringLength", [_TEXTS], {"unit": "UTF8_CHAR"}),
    ("StringUpper", [_TEXTS], {"encoding": "utf-8"}),
    ("RealDiv", [np.float32([1e-30, 1]), np.float32([1e10, 3])], {}),
    ("Substr", [_TEXTS[:1], np.int32(2), np.int32(4)], {}),
    ("Substr", [_TEXTS[3:4], np.int32(-3), np.int32(2)], {"unit": "UTF8_CHAR"}),
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
    "RealDiv": ("x", "y"),
    "StringSplitV2": ("input", "sep"),
    "Prod": ("input", "axis"),
    "UnsortedSegmentMax": ("data", "segment_ids", "num_segments"),
    "UnsortedSegmentSum": ("data", "segment_ids", "num_segments"),
    "Where": ("condition",),
}


@pytest.mark.parametrize(("name", "inputs", "options"), CASES)
def test_a_step_is_the_operation_of_its_name(name, inputs, options):
    given = dict(zip(_NAMED.get(name, ("input",)), inputs, strict=False))
    if name == "StringJoin":
        given = {"inputs": inputs}
    own = {key: tf.as_dtype(v).name if isinstance(v, type) else v for key, v in options.items()}
    expected = getattr(tf.raw_ops, name)(**given, **{k: v for k, v in options.items() if k != "DstT"}, **_dst(options))
    found = STEPS[name](*inputs, **own)
    for left, right in zip(*(v if isinstance(v, list | tuple) else [v] for v in (found, expected)), strict=True):
        np.testing.assert_array_equal(left, right.numpy())
        assert left.dtype.kind == right.numpy().dtype.kind


def test_the_written_file_has_all_steps_and_imports_numpy_alone():
    source = standalone_source()
    imported = {name.partition(" ")[0] for name in re.findall(r"(?m)^(?:import|from) (.*)", source)}
    assert imported == {"functools", "json", "numpy", "pathlib", "re", "struct"}
    written = {}
    exec(compile(source, "preprocess.py", "exec"), written)
    assert written["STEPS"].keys() == STEPS.keys() and written["farm_fingerprint"](b"") == farm_fingerprint(b"")


def _dst(options):
    return {"DstT": options["DstT"]} if "DstT" in options else {}


def test_texts_have_the_fingerprint_of_tensorflow():
    drawn = np.random.default_rng(0)
    texts = [drawn.bytes(length) for length in [*range(140), 192, 256, 257, 1000]]
    buckets = 2**62 + 1
    expected = tf.strings.to_hash_bucket_fast(tf.constant(texts), buckets).numpy().tolist()
    assert [farm_fingerprint(text) % buckets for text in texts] == expected


def fits(texts, pattern):
    return STEPS["RegexFullMatch"](texts, python_pattern(pattern))


def replaced(texts, pattern, rewrite, **options):
    return STEPS["RegexReplace"](texts, python_pattern(pattern), python_template(rewrite), **options)


LIKES = ("1 234,5 €", "$1,234.5", "1'234.5", "1234.5 µm")
WRITTEN = (
    "1\u00a0234,5 €",
    "1\u202f234,5\u00a0€",
    "\u22125",
    "$\u2212\u20091,234.5",
    "\u20135",
    "1\u2019234.5",
    "7 µm",
)


@pytest.mark.parametrize("like", LIKES)
def test_written_numbers_are_read_as_in_the_graph(like):
    read = number_text(like)
    texts = np.array([text.encode() for text in WRITTEN], object)
    found = fits(texts, read.pattern)
    np.testing.assert_array_equal(found, tf.strings.regex_full_match(texts.tolist(), read.pattern))
    assert found.any()
    expected = tf.constant(texts.tolist())
    for pattern, rewrite in read.replacements:
        texts = replaced(texts, pattern, rewrite)
        expected = tf.strings.regex_replace(expected, pattern, rewrite)
    np.testing.assert_array_equal(texts, expected)


PATTERNS = (
    "(.)", r"(\C*)a\C*", "([^a])", r"(\s*)", r"([\s\d]+)", r"(\S\D)", r"\b(\w*)", "(a*)", "()", "(?i)([k-si])",
    "(?s)(a.*)", "([\u00a0\u202f ])", "([-\u2212]?[0-9])", "(a)|b", "(a)$",
    r"^(\s)*|\s*$", "([[a])", "([&&~|-])", "(é|日)",
    r"(\d+)\.0", "([A-Z].*)",
)  # fmt: skip


@pytest.mark.integration
@settings(max_examples=150, deadline=None)
@given(st.lists(st.text() | st.text("aAksiıİſ\u212a 09\v\n[&"), min_size=1), st.sampled_from(PATTERNS), st.booleans())
def test_a_regular_expression_fits_any_text_as_in_tensorflow(texts, pattern, every):
    cells = np.array([text.encode() for text in texts] + [b"\xff", b"a\xc3"], object)
    expected = tf.raw_ops.StaticRegexReplace(input=cells, pattern=pattern, rewrite=r"<\1\\>", replace_global=every)
    found = replaced(cells, pattern, r"<\1\\>", replace_global=every)
    np.testing.assert_array_equal(found, expected)
    expected = tf.strings.regex_full_match(cells.tolist(), pattern)
    np.testing.assert_array_equal(fits(cells, pattern), expected)


@pytest.mark.parametrize("pattern", [r"[^\pL]", "[[:alpha:]]", "a(?i)b", r"[\D]", "(?U)a*"])
def test_an_expression_without_a_translation_is_refused(pattern):
    with pytest.raises(re.error):
        python_pattern(pattern)
