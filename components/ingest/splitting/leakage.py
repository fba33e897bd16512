"""Counts the rows that are in two splits: a metric measured on such rows is measured on training data."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import SplitLeakage
from fullpass.components.ingest.splitting.hash_runs import Run, read_ranges
from fullpass.components.ingest.writing.manifest import Overlap


def count_overlaps(runs: Mapping[str, Sequence[Run]]) -> tuple[Overlap, ...]:
    """Returns the overlap of each pair of splits, by the hashes of their rows; train is first.

    A row counts once, however often it occurs in the other split. The probability that two different rows have the same
    hash is about (rows of one split) * (rows of the other) / 2**64.

    Args:
        runs: Split -> runs of (content hash, row id).
    """
    names = sorted(runs, key=lambda name: name != "train")
    pairs = list(combinations(range(len(names)), 2))
    rows = dict.fromkeys(pairs, 0)
    examples: dict[tuple[int, int], tuple[int, int]] = {}
    for entries in read_ranges([runs[name] for name in names]) if pairs else ():
        for pair in pairs:
            first, second = (entries[i] for i in pair)
            positions = np.searchsorted(first["hash"], second["hash"]).clip(max=max(len(first) - 1, 0))
            common = first["hash"][positions] == second["hash"] if len(first) else np.zeros(len(second), dtype=bool)
            rows[pair] += int(common.sum())
            if common.any() and pair not in examples:
                at = int(common.argmax())
                examples[pair] = (int(first["what"][positions[at]]), int(second["what"][at]))
    sizes = [sum(run.rows for run in runs[name]) for name in names]
    return tuple(Overlap(names[a], names[b], rows[a, b], sizes[b], examples.get((a, b))) for a, b in pairs)


def check_overlaps(overlaps: Sequence[Overlap], limit: SplitLeakage, locate: Mapping[int, str]) -> None:
    """Raises UserError if more rows are in two splits than the YAML allows.

    Args:
        overlaps: The overlaps of all pairs of splits.
        locate: Row id of an example -> `file, row n`.
    """
    over = [
        o
        for o in overlaps
        if o.fraction > limit.max_fraction or (limit.max_rows is not None and o.rows > limit.max_rows)
    ]
    if not over:
        return
    allowed = f"{limit.max_fraction:.2%}" + (f" and {limit.max_rows:,} rows" if limit.max_rows is not None else "")
    lines = [f"data.split_leakage allows {allowed} of a split's rows to be in another split, too, but"]
    for o in over:
        lines.append(f"  {o.words}")
        if o.example:
            lines[-1] += f"; for example {locate[o.example[1]]} = {locate[o.example[0]]}"
    lines.append(
        "Split by a key that equal rows share (method: hash with column), or by all columns (hash without column), "
        "remove the repeated rows from the files, or raise data.split_leakage."
    )
    raise UserError("\n".join(lines))
