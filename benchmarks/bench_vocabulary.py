"""Analyzes a vocabulary of millions of distinct tokens: CPU time, peak memory, and equality with a plain count.

    python -m benchmarks.bench_vocabulary [--tokens 20000000] [--top-k 1000000]

Every token occurs in one row, and every second token in one more row. The rows are analyzed like one file of a span, in
one process, in permuted order, so that no batch is like another.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from benchmarks.common import peak_mib, write_results
from fullpass.pipeline.startup import large_imports

_PRIME = 15_485_863
_ROWS = 1 << 18
_DIGITS = 9


class _Rows:
    """The rows as raw batches, generated at every iteration. counts: number of occurrences of each token."""

    def __init__(self, config: Any, tokens: int):
        self.counts = np.zeros(tokens, np.int64)
        self._config = config

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        from fullpass.preprocessing.values.raw_batches import raw_batches

        tokens = len(self.counts)
        rows = np.arange(tokens + (tokens + 1) // 2)
        for first in range(0, len(rows), _ROWS):
            chosen = rows[first : first + _ROWS]
            ids = np.where(chosen < tokens, chosen * _PRIME % tokens, 2 * (chosen - tokens))
            self.counts += np.bincount(ids, minlength=tokens)
            table = pa.table({"token": _texts(ids), "label": (ids % 2).astype(np.float32)})
            yield from raw_batches(self._config, table)


def _texts(ids: np.ndarray) -> pa.Array:
    return pc.utf8_lpad(pa.array(ids).cast(pa.string()), _DIGITS, "0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=20_000_000, help="distinct tokens; not a multiple of 15,485,863")
    parser.add_argument("--top-k", type=int, default=1_000_000, help="number of tokens that the vocabulary keeps")
    arguments = parser.parse_args()
    with large_imports():
        from fullpass.preprocessing.analysis.analyze import analyze_table
        from fullpass.preprocessing.columns.outputs import vocabulary_name
        from fullpass.preprocessing.config import PreprocessingConfig
    config = PreprocessingConfig.model_validate(
        {
            "label": {"name": "label", "task": "regression"},
            "features": {"token": {"type": "category", "vocabulary": {"top_k": arguments.top_k}}},
        }
    )
    rows = _Rows(config, arguments.tokens)
    before, began = peak_mib(), time.process_time()
    with TemporaryDirectory(prefix="fullpass-bench-") as folder:
        graph = analyze_table(config, cast(Any, rows), f"{folder}/graph")
        seconds, peak = time.process_time() - began, peak_mib()
        found = Path(graph.vocabulary_file_by_name(vocabulary_name("token")) or "").read_bytes()
    # By descending count, and by descending bytes for equal counts: the order of TF Transform.
    expected = np.lexsort((np.arange(arguments.tokens), rows.counts))[::-1][: arguments.top_k]
    equal = found == "".join(f"{text}\n" for text in _texts(expected).to_pylist()).encode()
    facts = {
        "tokens": arguments.tokens,
        "rows": int(rows.counts.sum()),
        "kept": len(expected),
        "cpu_seconds": round(seconds, 1),
        "peak_mib": round(peak),
        "peak_mib_before": round(before),
        "equal_to_a_plain_count": equal,
    }
    Console().print(facts)
    write_results("vocabulary", [], facts)
    if not equal:
        raise SystemExit("The vocabulary is not that of a plain count.")


if __name__ == "__main__":
    main()
