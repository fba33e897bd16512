"""Gives both sides the same rows: writes stock TFX's split as CSV files, and scores any model on its eval records.

    python -m benchmarks.taxi_rows split TRAIN_RECORDS EVAL_RECORDS --to FOLDER
    python -m benchmarks.taxi_rows score MODEL EVAL_RECORDS --output KEY

RECORDS are glob patterns of TFRecord files of raw examples. Files that end in .gz are gzipped. Each command prints one
JSON object.
"""

import argparse
import csv
import glob
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.stock_taxi import Score, taxi_csv

SCORE_BATCH = 1024
Row = tuple[bytes | float | int | None, ...]


def read_records(pattern: str) -> list[bytes]:
    """Returns the serialized examples of all TFRecord files that `pattern` matches (`**`: any depth), in name order."""
    paths = sorted(glob.glob(pattern, recursive=True))
    if not paths:
        raise FileNotFoundError(f"No file matches {pattern}.")
    compression = "GZIP" if paths[0].endswith(".gz") else ""
    return list(tf.data.TFRecordDataset(paths, compression_type=compression).as_numpy_iterator())


def split_csv(source: Path, splits: Mapping[str, Sequence[bytes]], folder: Path) -> dict[str, int]:
    """Splits the lines of a CSV file as TFX split the examples made from them.

    An unchanged line goes to the split that holds an example with the same values. Lines with equal values
    make equal examples, which TFX's hash puts into the same split.

    Args:
      source: CSV file with a header, read by CsvExampleGen.
      splits: Split name -> its serialized examples.
      folder: Output folder for one file `<split>.csv` per split, with the header and the lines in the source's order.

    Returns:
      Split name -> number of rows.

    Raises:
      ValueError: A line has no example, or the number of lines of a split differs from its number of examples.
    """
    with source.open(newline="", encoding="utf-8") as opened:
        header, *lines = csv.reader(opened)
    kinds = _column_kinds([example for examples in splits.values() for example in examples])
    split_of = {_example_row(e, header, kinds): name for name, examples in splits.items() for e in examples}
    rows: dict[str, list[list[str]]] = {name: [] for name in splits}
    for number, line in enumerate(lines, start=2):
        name = split_of.get(_line_row(line, header, kinds))
        if name is None:
            raise ValueError(f"{source}, line {number}: no example of any split has its values.")
        rows[name].append(line)
    counts = {name: len(rows[name]) for name in splits}
    expected = {name: len(examples) for name, examples in splits.items()}
    if counts != expected:
        raise ValueError(f"{source}: divided into {counts} rows, the splits hold {expected} examples.")
    _write_csv(folder, header, rows)
    return counts


def _write_csv(folder: Path, header: Sequence[str], rows: Mapping[str, list[list[str]]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in rows.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as opened:
            csv.writer(opened, lineterminator="\n").writerows([header, *lines])


def _column_kinds(examples: Sequence[bytes]) -> dict[str, str]:
    """Returns column -> the kind of list that holds its values, as CsvExampleGen inferred it."""
    kinds: dict[str, str] = {}
    for serialized in examples:
        for column, feature in tf.train.Example.FromString(serialized).features.feature.items():
            kind = feature.WhichOneof("kind")
            if kind is not None:
                kinds[column] = kind
    return kinds


def _example_row(serialized: bytes, header: Sequence[str], kinds: Mapping[str, str]) -> Row:
    features = tf.train.Example.FromString(serialized).features.feature
    lists = [getattr(features[name], kinds[name]).value if name in kinds else () for name in header]
    return tuple(values[0] if values else None for values in lists)


def _line_row(line: Sequence[str], header: Sequence[str], kinds: Mapping[str, str]) -> Row:
    """Returns the values that CsvExampleGen makes from a line: empty cells are missing, floats are float32."""
    parse: dict[str, Callable[[str], bytes | float | int]] = {
        "int64_list": int,
        "float_list": lambda cell: float(np.float32(cell)),
        "bytes_list": str.encode,
    }
    return tuple(parse[kinds[name]](cell) if cell else None for name, cell in zip(header, line, strict=True))


def score(model: Path, examples: Sequence[bytes], *, output: str) -> Score:
    """Scores raw examples with a SavedModel's `serving_default` and compares the scores with the label, a big tip.

    Args:
      model: SavedModel directory; its signature takes serialized examples.
      examples: Serialized raw examples with the columns `fare` and `tips`.
      output: Name of the signature's output: one score per example, or one per class with the positive class last.

    Returns:
      The AUC, and the counts that identify the rows.
    """
    serve = tf.saved_model.load(str(model)).signatures["serving_default"]
    (argument,) = serve.structured_input_signature[1]
    scores = []
    for start in range(0, len(examples), SCORE_BATCH):
        batch = examples[start : start + SCORE_BATCH]
        answer = serve(**{argument: tf.constant(batch)})[output].numpy()
        scores.append(answer.reshape(len(batch), -1)[:, -1])
    labels = np.array([is_big_tip(example) for example in examples])
    return Score(auc=auc(labels, np.concatenate(scores)), rows=len(labels), positives=int(labels.sum()))


def is_big_tip(serialized: bytes) -> bool:
    """Returns the template's label: whether the tip is more than a fifth of the fare, in float32."""
    features = tf.train.Example.FromString(serialized).features.feature
    fare, tips = (_number(features[name]) for name in ("fare", "tips"))
    return bool(tips > fare * np.float32(0.2))


def _number(feature: tf.train.Feature) -> np.float32:
    values = feature.float_list.value or feature.int64_list.value
    return np.float32(values[0]) if values else np.float32(0)


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Returns the exact area under the ROC curve: the share of correctly ordered (positive, negative) pairs.

    A tie counts half.

    Args:
      labels: Booleans, shape (n,).
      scores: Numbers, shape (n,).

    Example:
      labels [1, 0, 0], scores [0.7, 0.9, 0.7]: one pair is in the wrong order and one is tied, so the AUC is 0.25.
    """
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positives = int(labels.sum())
    negatives = len(labels) - positives
    return float((ranks[labels].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    split = commands.add_parser("split")
    split.add_argument("train")
    split.add_argument("eval")
    split.add_argument("--to", type=Path, required=True)
    scoring = commands.add_parser("score")
    scoring.add_argument("model", type=Path)
    scoring.add_argument("records")
    scoring.add_argument("--output", required=True)
    arguments = parser.parse_args()
    if arguments.command == "split":
        splits = {"train": read_records(arguments.train), "eval": read_records(arguments.eval)}
        print(json.dumps(split_csv(taxi_csv(), splits, arguments.to)))
    else:
        scored = score(arguments.model, read_records(arguments.records), output=arguments.output)
        print(json.dumps(asdict(scored)))


if __name__ == "__main__":
    main()
