"""Numbers in every written form, whole and damaged: grammar, graph and the preprocessing of an export read the same."""

import functools
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from fullpass.components.portable.preprocess import Preprocessing
from fullpass.components.portable.read_graph import GraphReader
from fullpass.preprocessing.expressions.number_text import number_text
from fullpass.preprocessing.expressions.tensor_ops import number_tensor

_SWAP = str.maketrans(",.", ".,")
_JUNK = "0123456789.,:-+()[]'\"<>~±/%$€ KkMmhdsPTe*#\t\u00a0\u202f\u2212\u2013\u2019\u2032\u2264xé\0"
_CELLS = 40


def _signed(rng: random.Random, x: float, digits: str) -> str:
    return rng.choice(("-{}", "\u2212{}", "({})", "- {}")).format(digits) if x < 0 else digits


def _behind(x: float, digits: str) -> str:
    return f"{digits}-" if x < 0 else digits


def _swapped(x: float) -> str:
    return f"{abs(x):,.2f}".translate(_SWAP)


_Write = Callable[[random.Random, float], str]
_NUMBERS: dict[str, _Write] = {
    "1234.5": lambda rng, x: _signed(rng, x, f"{abs(x):.2f}"),
    "$1,234.5": lambda rng, x: _signed(rng, x, f"${abs(x):,.2f}"),
    "1.234,5 €": lambda rng, x: _signed(rng, x, f"{_swapped(x)}{rng.choice((' ', chr(0xA0)))}€"),
    "1 234.5": lambda rng, x: _signed(rng, x, f"{abs(x):,.2f}".replace(",", rng.choice("\u00a0\u202f "))),
    "1'234,5": lambda rng, x: _signed(rng, x, _swapped(x).replace(".", rng.choice("'\u2019"))),
    "1,234.5-": lambda rng, x: _behind(x, f"{abs(x):,.2f}"),
    "1.234,5-": lambda rng, x: _behind(x, _swapped(x)),
    "1,234.5": lambda rng, x: f"'{_signed(rng, x, f'{abs(x):,.2f}')}",
    "1234.5[1]": lambda rng, x: f"{x:.2f}{rng.choice(('[2]', ' (+1)', ' (est.)', '*', '†', '[a][b]', ''))}",
    "<1234.5": lambda rng, x: f"{rng.choice(('<', '> ', '~', '≤', 'ca. ', '>=', ''))}{x:.2f}",
    "1234.5±0.1 kg": lambda rng, x: f"{x:.2f}{rng.choice((' ± 0.3', '±1', '+/-2.5', ''))} kg",
    "1234.5%": lambda rng, x: f"{x:.2f}%",
}
_PARTS: dict[str, _Write] = {
    "2h 10m": lambda rng, x: (
        f"{int(x) // 60}{rng.choice(('h', ' hrs', ' hour'))} {int(x) % 60}{rng.choice(('m', ' min'))}"
    ),
    "PT2H10M": lambda rng, x: f"PT{int(x) // 60}H{int(x) % 60}M",
    "hh:mm": lambda rng, x: f"{int(x) // 60}:{int(x) % 60:02d}",
    "hh:mm:ss": lambda rng, x: f"{int(x) // 1440} days {int(x) % 1440 // 60:02d}:{int(x) % 60:02d}:00",
    "mm:ss": lambda rng, x: f"{int(x)}:00",
    "5'11\"": lambda rng, x: f'{int(x) // 12}{rng.choice(chr(39) + chr(0x2032))}{int(x) % 12}"',
}
"""Example -> writes a number; whole and not negative ones in several parts."""


@functools.cache
def _graph(like: str) -> tf.types.experimental.ConcreteFunction:
    @tf.function(autograph=False, input_signature=[{"x": tf.SparseTensorSpec([None, None], tf.string)}])
    def read(raw: dict[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
        cells = tf.sparse.to_dense(raw["x"], "", validate_indices=False)[:, 0]
        return {"x_xf": number_tensor(cells, like)}

    return read.get_concrete_function()


@functools.cache
def _steps(like: str) -> str:
    reader = GraphReader(_graph(like))
    inputs = reader.inputs({"x_xf": "x_xf"})
    column = {"type": "string", "many": False, "decimal": "."}
    answer = {"classes": [], "levels": [], "threshold": None, "separator": None}
    content = {"columns": {"x": column}, "feeds": reader.feeds, "inputs": inputs, "answer": answer, "tables": {}}
    return json.dumps({**content, "steps": reader.used(inputs.values())})


def _damaged(rng: random.Random, text: str) -> str:
    at = rng.randint(0, len(text))
    return text[:at] + rng.choice((rng.choice(_JUNK), "")) + text[at + rng.randint(0, 2) :]


def try_one(seed: int, folder: Path) -> str:
    """Writes numbers in a form and compares what is read from them, and from damaged ones, in three ways."""
    rng = random.Random(seed)
    like, write = rng.choice((*_NUMBERS.items(), *_PARTS.items()))
    numbers = [round(10 ** rng.uniform(-1, 6), 2) * rng.choice((1, 1, -1)) for _ in range(_CELLS)]
    if like in _PARTS:
        numbers = [float(int(abs(x))) for x in numbers]
    texts = [write(rng, x) for x in numbers]
    damaged = [_damaged(rng, text) for text in texts for _ in range(2)]
    cells = [cell for cell in (*texts, *damaged) if cell.strip(" \t\n\v\f\r")]
    read = [number_text(like).read(cell.strip(" \t\n\v\f\r")) for cell in cells]
    np.testing.assert_allclose(np.array(read[:_CELLS], float), numbers, rtol=1e-12, err_msg=like)
    rows = np.array([[i, 0] for i in range(len(cells))], np.int64)
    graph = _graph(like)(tf.constant(rows), tf.constant(cells), tf.constant([len(cells), 1], tf.int64))["x_xf"].numpy()
    with np.errstate(over="ignore"):
        expected = np.array([np.nan if number is None else number for number in read]).astype(np.float32)
    expected[~np.isfinite(expected)] = np.nan
    (folder / "preprocessing.json").write_text(_steps(like))
    portable = Preprocessing(folder / "preprocessing.json").features([{"x": cell} for cell in cells])["x_xf"]
    for name, found in (("graph", graph), ("export", portable)):
        found = np.where(np.isfinite(found), found, np.nan)
        same = (found == expected) | np.isnan(found) & np.isnan(expected)
        assert same.all(), (like, name, [(cells[i], read[i], found[i]) for i in np.flatnonzero(~same)[:3]])
    return "read"
