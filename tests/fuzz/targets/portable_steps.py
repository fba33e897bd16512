"""Steps of the preprocessing without TensorFlow, on random texts and numbers: each answers like the operation."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.components.portable.preprocess import STEPS
from fullpass.preprocessing.dates.date_format import compile_format
from fullpass.preprocessing.expressions.number_text import NUMBER

_NUMBERS = (
    0.0,
    -0.0,
    0.5,
    -2.5,
    1.5,
    3e38,
    -7.25,
    1e9,
    1e-6,
    1e-30,
    2.0**63,
    float("inf"),
    float("-inf"),
    float("nan"),
)
_SIGNS = "0123456789.,:-+()'\"/%$ \t\n\v\r\0\u00a0\u2007\u202f\u2009\u2212\u2013\u2019\u20ac\u00b1~<>"
_LETTERS = "aAbBeEhHiIkKmMsStTxXßÄéİıſ\u212aΣσςǆÅ\u0301ＡЖ日Ⅷ𐐀\U0001f600\ufffd\u200b\ufeff\u0085\u2028"
_PIECES = (*map(str.encode, _SIGNS + _LETTERS), b"\xff", b"\xc3", b"\xe2\x82", b"\x80")
PATTERNS = (
    NUMBER, ".", ".*", r"\C*a\C*", r"[^a]", r"[^0-9.]+", r"\s+", r"\S", r"\d", r"\D", r"\w+", r"\W", r"\ba", "a*",
    "", "(?i)k", "(?i)[a-z]+", "(?i)i", "(?s)a.*", r"^(-?[0-9]+)\.0+$", "[\u00a0\u202f ]", "[-+\u2212\u2013]?[0-9]",
    "(a)|b", r"a$", r"^\s*|\s*$", r"\(([^)]*)\)", "[[a]", "[&&~|-]", "([0-9])([hm])", "é|日", r"a\z",
)  # fmt: skip
_REWRITES = ("", "x", r"\1", r"<\0>", r"\\", "€", r"\1\1")
_FORMATS = ("iso", "%d/%m/%Y", "%d %b %Y", "%I:%M %p", "%Y-%m-%d %H:%M:%S")


def texts(rng: random.Random, count: int) -> np.ndarray:
    """Returns random texts as bytes, some of which are not UTF-8."""
    made = np.empty(count, object)
    made[:] = [b"".join(rng.choices(_PIECES, k=rng.randint(0, 9))) for _ in range(count)]
    return made


def _numbers(rng: random.Random, count: int) -> np.ndarray:
    return np.array([rng.choice((*_NUMBERS, rng.gauss(0, 100))) for _ in range(count)], np.float32)


Given = tuple[dict[str, Any], dict[str, Any]]
"""Inputs by name, and options."""


def _regex(rng: random.Random) -> str:
    return rng.choice((*PATTERNS, compile_format(rng.choice(_FORMATS)).pattern))


def _of_pattern(rng: random.Random) -> Given:
    pattern = _regex(rng)
    groups = pattern.count("(") > pattern.count("(?") + pattern.count(r"\(")
    rewrite = rng.choice([r for r in _REWRITES if groups or r"\1" not in r])
    return {"input": texts(rng, 9)}, {"pattern": pattern, "rewrite": rewrite, "replace_global": rng.random() < 0.7}


def _of_unit(rng: random.Random) -> dict[str, str]:
    return {"unit": rng.choice(("BYTE", "UTF8_CHAR"))}


def _parts(rng: random.Random) -> Given:
    """Draws parts of texts that begin inside them; TensorFlow refuses others."""
    unit, found = _of_unit(rng), texts(rng, 9)
    lengths = tf.strings.length(found.tolist(), **unit).numpy()
    first = np.array([rng.randint(-length, length) for length in lengths], np.int32)
    return {"input": found, "pos": first, "len": np.array([rng.randint(0, 9) for _ in found], np.int32)}, unit


def _pairs(*names: str) -> Callable[[random.Random], Given]:
    return lambda rng: ({name: _numbers(rng, 9) for name in names}, {})


_OF_TEXT: dict[str, Callable[[random.Random], Given]] = {
    "StaticRegexFullMatch": lambda rng: ({"input": texts(rng, 9)}, {"pattern": _regex(rng)}),
    "StaticRegexReplace": _of_pattern,
    "StringLower": lambda rng: ({"input": texts(rng, 9)}, {"encoding": rng.choice(("", "utf-8"))}),
    "StringUpper": lambda rng: ({"input": texts(rng, 9)}, {"encoding": rng.choice(("", "utf-8"))}),
    "StringLength": lambda rng: ({"input": texts(rng, 9)}, _of_unit(rng)),
    "StringStrip": lambda rng: ({"input": texts(rng, 9)}, {}),
    "StringToHashBucketFast": lambda rng: ({"input": texts(rng, 9)}, {"num_buckets": rng.randint(1, 2**40)}),
    "Substr": _parts,
    "Equal": lambda rng: ({"x": texts(rng, 9), "y": texts(rng, 9)}, {}),
}
_OF_NUMBERS: dict[str, Callable[[random.Random], Given]] = {
    **dict.fromkeys(("AddV2", "Sub", "Mul", "RealDiv", "FloorMod", "Maximum", "Minimum"), _pairs("x", "y")),
    **dict.fromkeys(("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"), _pairs("x", "y")),
    **dict.fromkeys(("Abs", "Neg", "Floor", "Ceil", "Round", "Sign", "Sqrt", "Square"), _pairs("x")),
    **dict.fromkeys(("Exp", "Log", "Log1p", "Sin", "Cos", "Asinh", "Tanh"), _pairs("x")),
    "Pow": _pairs("x", "y"),
    **dict.fromkeys(("IsNan", "IsFinite", "ZerosLike"), _pairs("x")),
    "AsString": lambda rng: ({"input": _numbers(rng, 9)}, {"precision": rng.choice((-1, 6, 9)), "shortest": True}),
}


_ROUNDED = frozenset(("Exp", "Log", "Log1p", "Sin", "Cos", "Asinh", "Tanh", "Pow"))
"""Operations whose last digit is that of a library."""


def try_one(seed: int, folder: Path) -> str:
    """Compares one step with the operation of its name."""
    rng = random.Random(seed)
    name, draw = rng.choice((*_OF_TEXT.items(), *_OF_NUMBERS.items()))
    inputs, options = draw(rng)
    given = {key: value.tolist() if value.dtype == object else value for key, value in inputs.items()}
    expected = getattr(tf.raw_ops, name)(**given, **options).numpy()
    with np.errstate(all="ignore"):
        found = STEPS[name](*inputs.values(), **options)
    assert found.shape == expected.shape and found.dtype.kind == expected.dtype.kind, (name, found, expected)
    if name in _ROUNDED:
        same = np.isclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
    else:
        same = (found == expected) | (found != found) & (expected != expected)
    assert same.all(), (name, options, [(inputs, found[i], expected[i]) for i in np.flatnonzero(~same)[:1]])
    return "equal"
