"""Numbers in one spelling with odd cells among them: what `init` takes for numbers, the run reads as the same."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import tensorflow as tf

from fullpass.pipeline.authoring.init.propose_label import number_expression
from fullpass.pipeline.authoring.profile.column_profile import profile_column
from fullpass.pipeline.authoring.profile.number_profile import missing_tokens
from fullpass.pipeline.authoring.profile.value_counts import count_values
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.expressions.expression import parse_expression
from fullpass.preprocessing.expressions.tensor_ops import StringColumn, compute_expression
from fullpass.preprocessing.values.convert import convert

_SWAP = str.maketrans(",.", ".,")
_STYLES: tuple[Callable[[float], str], ...] = (
    lambda x: f"{x:.2f}",
    lambda x: f"{x:,.2f}",
    lambda x: f"{x:,.2f}".translate(_SWAP),
    lambda x: f"{x:.2f}".translate(_SWAP),
    lambda x: f"{x:,.2f}".replace(",", "'"),
    lambda x: f"{x:,.2f}".translate(_SWAP).replace(".", "\u202f"),
    lambda x: f"{x:,.2f}".replace(",", " "),
)
_AROUND = ("{}", "{}", "${}", "€ {}", "{} kr", "{}%", "{} kg", " {} ", "{}+", "\u00a0{}")
_NEGATIVE = ("-{}", "({})", "\u2212{}")
_ODD = ("3 7", "10-20", "n/a", "1;2", "7-", "(", "", "-", "1e", "2 kg 3", "--5", "1,2,3,4", "x", "٣", "$", "1.2.3")
"""Cells that are a number in no spelling."""


def try_one(seed: int, folder: Path) -> str:
    """Compares the numbers that the run reads with those that were written; an odd cell is missing or bad."""
    rng = random.Random(seed)
    style, around, negative = rng.choice(_STYLES), rng.choice(_AROUND), rng.choice(_NEGATIVE)
    size, odd = rng.choice((2, 4, 7)), rng.choice((0, 0.02, 0.1, 0.3))
    cells, truth = [], []
    for _ in range(300):
        x = round(10 ** rng.uniform(-1, size), 2)
        below = rng.random() < 0.2
        text = around.format(style(x))
        is_odd = rng.random() < odd
        cells.append(rng.choice(_ODD) if is_odd else negative.format(text.strip()) if below else text)
        truth.append(np.nan if is_odd else -x if below else x)
    column = pa.array(cells)
    values = count_values(column)
    missing = missing_tokens(values)
    profile = profile_column("x", values.without(missing))
    if profile.kind == "number":
        read = convert(column, RawColumn("x", "number"), strip=True, missing=missing).flat.to_numpy(
            zero_copy_only=False
        )
    elif profile.kind == "written_number":
        text = StringColumn(tf.constant(cells), tf.constant([cell not in missing for cell in cells]))
        read = compute_expression(parse_expression(number_expression(profile)), {"x": text}).numpy()
    else:
        return "refused"
    other = ~np.isnan(read) & ~np.isclose(read, truth, rtol=1e-6)
    assert not other.any(), [(cells[i], float(read[i])) for i in np.flatnonzero(other)[:5]]
    return "read" if (np.isnan(read) == np.isnan(truth)).all() else "rows missing"
