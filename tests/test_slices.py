"""Texts that begin in the middle of Arrow's buffers, and their nulls: every slice against the same cells in Python."""

import ast
import hashlib
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from fullpass.components.data_gate.series import Series, SeriesSource
from fullpass.components.data_gate.sketches import Sketches
from fullpass.components.ingest.readers.row_hash import contents, hashes
from fullpass.components.ingest.splitting.assign import cell_tokens
from fullpass.components.ingest.writing.encode import encode_rows
from fullpass.pipeline.authoring.profile.images import image_texts
from fullpass.pipeline.authoring.profile.value_counts import count_values
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.dates.read_dates import read_dates
from fullpass.preprocessing.values.arrow_text import null_where, to_text
from fullpass.preprocessing.values.byte_batches import row_bytes
from fullpass.preprocessing.values.convert import convert, read_numbers
from tests.source_tree import trees

TEXTS = ("longer than others", None, "8.0", "NA", " a|b ", "ü|", "", "2024-05-01", "NA", None, "-7", "zz")
LISTS = (["longer than others", "NA"], None, ["8.0"], [], [None, "ü"], ["NA"], ["zz"], None, ["a", "b", ""], ["-7"])
STRINGS = (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))
FULL = pa.large_list(pa.binary())
"""The lists of converted columns: a missing text is empty, and a list without elements is null."""
BYTES = (pa.binary(), pa.large_binary())
TEXT_LISTS = (pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_(pa.large_binary()))
MISSING = ("", "NA")


def slices(cells, kind):
    """Yields every part of some cells: as a slice of one array, as an array of its own, and as Python objects."""
    if kind == FULL:
        cells = [[text or "" for text in texts] if texts else None for texts in cells]
    whole = pa.array(cells, kind)
    for start in range(len(cells)):
        for stop in range(start + 1, len(cells) + 1):
            part = whole.slice(start, stop - start)
            yield part, pa.array(part.to_pylist(), kind), cells[start:stop]


def stored(text):
    return b"" if text is None else text.encode()


def present(text):
    return None if text in (None, *MISSING) else text.encode()


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def token(text):
    return None if text is None else text.strip().removesuffix(".0")


def nan_as_none(numbers):
    return [None if np.isnan(one) else one for one in numbers]


def converted(column, type="string", **options):
    return convert(column, RawColumn("x", type, **options), strip=False, missing=MISSING).flat.to_pylist()


def without_every_second(column):
    return null_where(pa.array(np.arange(len(column)) % 2 == 0), column).cast(pa.binary()).to_pylist()


def field(tag, content):
    return bytes([tag, len(content)]) + content


def example(values):
    """Returns a tf.Example with the values as the feature x, by the wire format of protocol buffers."""
    if not values:
        return field(0x0A, b"")
    listed = field(0x0A, b"".join(field(0x0A, value) for value in values))
    return field(0x0A, field(0x0A, field(0x0A, b"x") + field(0x12, listed)))


def gate_tokens(column):
    many = pa.types.is_large_list(column.type)
    source = SeriesSource((Series("x", "x", "token"),), (RawColumn("x", "string", many=many),), {})
    sketches = Sketches(source)
    sketches.add({"x": column}, len(column))
    found = sketches.distributions()["x"]
    return dict(zip(found.values, found.counts, strict=True)), found.missing


def value_counts(column):
    found = count_values(column)
    return dict(zip(found.texts, found.counts.tolist(), strict=True)), int((found.codes < 0).sum())


def counted(cells):
    return dict(Counter(cell for cell in cells if cell is not None)), sum(cell is None for cell in cells)


def each(function):
    return lambda cells: [function(cell) for cell in cells]


CASES = {
    "to_text": ((*STRINGS, *BYTES),
        lambda column: to_text(column, strip=True, missing=MISSING)[0].to_pylist(),
        each(lambda text: text and (None if text in MISSING else text.strip()) or None)),
    "convert text": ((*STRINGS, *BYTES), converted, each(present)),
    "convert tokens": ((*STRINGS, *BYTES),
        lambda column: converted(column, token=True),
        each(lambda text: present(text) and present(text).removesuffix(b".0"))),
    "convert numbers": ((*STRINGS, *BYTES), lambda column: converted(column, "number"), each(number)),
    "read_numbers": ((pa.string(),),
        lambda column: nan_as_none(read_numbers(column, missing=MISSING)[0]), each(number)),
    "convert separated": ((*STRINGS, *BYTES),
        lambda column: converted(column, many=True, separator="|"),
        each(lambda text: present(text) and [present(part) or b"" for part in text.split("|")])),
    "convert lists": (TEXT_LISTS,
        lambda column: converted(column, many=True),
        each(lambda texts: [present(text) or b"" for text in texts] if texts else None)),
    "convert lists of one": (TEXT_LISTS,
        converted, each(lambda texts: present(texts[0]) if texts and len(texts) == 1 else None)),
    "convert vectors": (TEXT_LISTS,
        lambda column: converted(column, "vector", width=1),
        each(lambda texts: [number(texts[0])] if texts and len(texts) == 1 and number(texts[0]) else None)),
    "null_where": ((pa.string(), pa.large_string(), *BYTES),
        without_every_second,
        lambda texts: [text.encode() if text is not None and i % 2 else None for i, text in enumerate(texts)]),
    "contents": ((*STRINGS, *BYTES),
        lambda column: contents(pa.table({"x": column})).to_pylist(),
        each(lambda text: b"" if text is None else b"\x1fx\x1f" + text.encode())),
    "hashes": ((*STRINGS, *BYTES),
        lambda column: hashes(column).tolist(),
        each(lambda text: int.from_bytes(hashlib.blake2b(stored(text), digest_size=8).digest(), "big"))),
    "cell_tokens": ((*STRINGS, *BYTES), lambda column: cell_tokens(column).to_pylist(), each(token)),
    "row_bytes": ((*STRINGS, *BYTES),
        lambda column: row_bytes(pa.table({"x": column})).tolist(), each(lambda text: len(stored(text)))),
    "read_dates": (STRINGS,
        lambda column: read_dates(column, "%Y-%m-%d").valid.tolist(), each(lambda text: text == "2024-05-01")),
    "encode": (BYTES,
        lambda column: encode_rows({"x": column}).to_pylist(),
        each(lambda text: example([] if text is None else [text.encode()]))),
    "encode lists": ((FULL,),
        lambda column: encode_rows({"x": column}).to_pylist(),
        each(lambda texts: example([text.encode() for text in texts or ()]))),
    "image_texts": (TEXT_LISTS,
        lambda column: [text is not None for text in image_texts(column).to_pylist()],
        each(lambda texts: bool(texts) and texts[0] is not None)),
    "tokens of the gate": (BYTES,
        gate_tokens, lambda texts: counted([text and text.removesuffix(".0") for text in texts])),
    "lists of the gate": ((FULL,),
        gate_tokens,
        lambda lists: counted([text.removesuffix(".0") or None for texts in lists for text in texts or [""]])),
    "value_counts": (STRINGS, value_counts, counted),
}  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in CASES for kind in CASES[name][0]], ids=str)
def test_a_slice_has_its_own_texts(name, kind):
    _, function, expected = CASES[name]
    for part, alone, cells in slices(LISTS if pa.types.is_nested(kind) else TEXTS, kind):
        assert function(part) == function(alone) == expected(cells), cells


@pytest.mark.integration
def test_nulls_of_texts_come_from_one_function():
    found = [
        f"{path}:{node.lineno}"
        for path, tree in trees("|".join(CHOICES))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _takes_a_null_scalar(node)
    ]
    assert not found, "pyarrow 17 to 21 returns wrong bytes for slices: use null_where"


CHOICES = ("scalar", "if_else", "replace_with_mask", "case_when", "choose")


def _takes_a_null_scalar(call):
    """Returns whether a call is `pa.scalar(None, ...)`, or a choice of Arrow with None for a column."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    of_none = any(isinstance(one, ast.Constant) and one.value is None for one in call.args)
    return of_none and called in CHOICES
