"""What the Evaluator measured, as a file of its own: whoever reads it needs neither TFMA nor TensorFlow."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from components.files import read_bytes
from preprocessing.outputs import SPAN

FILE = "measured.json"
BASELINE = "baseline"
CANDIDATE = "candidate"
ALWAYS_MEASURED = "example_count"
"""Has a threshold in every config, so that the Evaluator always gives a verdict: stock TFX gives none without."""


@dataclass(frozen=True)
class Rows:
    """Rows that were measured together, and what was measured on them.

    keys: columns and the values that the rows share, as text; none is all rows. values, baseline: metric -> value, of
    the new model and of the last blessed one, if it was compared. newest: whether they are of the newest span alone.
    """

    keys: tuple[tuple[str, str], ...]
    values: Mapping[str, float]
    baseline: Mapping[str, float] = field(default_factory=dict)
    newest: bool = False

    @property
    def examples(self) -> int:
        """How many, by their weights."""
        return int(self.values.get(ALWAYS_MEASURED, 0))


def write_measured(evaluation_uri: str) -> None:
    """Writes what TFMA has written, into a file that is read without it."""
    from tfx.dsl.io import fileio

    measured = [{**vars(rows), "keys": list(rows.keys)} for rows in _of_tfma(evaluation_uri)]
    with fileio.open(f"{evaluation_uri}/{FILE}", "w") as file:
        file.write(json.dumps(measured))


def read_measured(evaluation_uri: str) -> Sequence[Rows]:
    """Returns all that was measured in an evaluation; of one that an earlier release made, what TFMA has written."""
    content = read_bytes(f"{evaluation_uri}/{FILE}")
    if content is None:
        return list(_of_tfma(evaluation_uri))
    return [Rows(**{**rows, "keys": tuple(map(tuple, rows["keys"]))}) for rows in json.loads(content)]


def _of_tfma(evaluation_uri: str) -> Iterator[Rows]:
    import tensorflow_model_analysis as tfma

    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # TFMA reads with a deprecated function, and says so
    for record in tfma.load_metrics(evaluation_uri):
        keys = record.slice_key.single_slice_keys
        shared = tuple((key.column, _text(key)) for key in keys if key.column != SPAN)
        yield Rows(shared, _values(record, CANDIDATE), _values(record, BASELINE), len(shared) < len(keys))


def _values(record: Any, model: str) -> dict[str, float]:
    return {
        item.key.name: item.value.double_value.value
        for item in record.metric_keys_and_values
        if (item.key.model_name or CANDIDATE) == model and not item.key.is_diff and item.value.HasField("double_value")
    }


def _text(key: Any) -> str:
    kind = key.WhichOneof("kind")
    if kind == "bytes_value":
        return key.bytes_value.decode("utf-8", "replace")
    return f"{getattr(key, kind):g}" if kind else ""
