"""Compares two runs of one pipeline, made by two lines of TFX.

    python -m tests.live.compare_lines runs LEFT RIGHT            the folders below `root` of the YAML
    python -m tests.live.compare_lines predictions LEFT RIGHT     two files that `fullpass predict` wrote, JSON lines

Prints a JSON object: what was compared -> "equal", "DIFFER", or the greatest difference.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_data_validation as tfdv
import tensorflow_transform as tft


def newest(root: Path, output: str) -> Path:
    """Returns the newest artifact of an output."""
    return max((root / output).iterdir(), key=lambda path: int(path.name))


def records(root: Path, split: str) -> list[bytes]:
    """Returns the raw records of a split, in the order of their bytes."""
    files = sorted(str(path) for path in (newest(root, "Ingest/examples") / f"Split-{split}").iterdir())
    kind = "GZIP" if files[0].endswith(".gz") else ""
    return sorted(record.numpy() for record in tf.data.TFRecordDataset(files, compression_type=kind))


def transformed(root: Path, rows: list[bytes]) -> dict[str, np.ndarray]:
    """Returns the outputs of the transform graph of a run for raw records."""
    graph = tft.TFTransformOutput(str(newest(root, "Transform/transform_graph")))
    outputs = graph.transform_raw_features(tf.io.parse_example(rows, graph.raw_feature_spec()))
    dense = {n: t.values if isinstance(t, tf.SparseTensor) else t for n, t in outputs.items()}
    return {name: np.asarray(tf.convert_to_tensor(value)) for name, value in dense.items()}


def difference(left: np.ndarray, right: np.ndarray) -> float:
    """Returns the greatest absolute difference; infinity for other shapes or other values that are no numbers."""
    if left.shape != right.shape or left.dtype.kind != right.dtype.kind:
        return float("inf")
    if left.dtype.kind not in "iufb":
        return 0.0 if (left == right).all() else float("inf")
    return float(np.nanmax(np.abs(left.astype(np.float64) - right.astype(np.float64)), initial=0.0))


def statistics(root: Path) -> list[list[str]]:
    """Returns TFDV's statistics of the train split as lines of words."""
    file = newest(root, "StatisticsGen/statistics") / "Split-train" / "FeatureStats.pb"
    return [line.split() for line in str(tfdv.load_stats_binary(str(file))).splitlines()]


def relative_difference(left: list[list[str]], right: list[list[str]]) -> float:
    """Returns the greatest relative difference of the numbers in lines of words; infinity for other words.

    TFDV computes the edges of histograms from float32 minima and maxima: in float64 with NumPy 1, in float32 with 2.
    """
    greatest = 0.0
    for one, two in zip(left, right, strict=True):
        if one != two:
            try:
                a, b = float(one[-1]), float(two[-1])
            except ValueError:
                return float("inf")
            greatest = max(greatest, abs(a - b) / max(abs(a), abs(b)) if one[:-1] == two[:-1] else float("inf"))
    return greatest


def vocabularies(root: Path) -> dict[str, bytes]:
    """Returns the files of vocabularies of the transform graph: name -> content."""
    assets = newest(root, "Transform/transform_graph") / "transform_fn" / "assets"
    return {path.name: path.read_bytes() for path in assets.iterdir()}


def compare_runs(left: Path, right: Path) -> dict[str, object]:
    """Compares records, statistics, vocabularies, and what the transform graphs compute of the same records."""
    rows = {split: records(left, split) for split in ("train", "eval")}
    found: dict[str, object] = {}
    for split, own in rows.items():
        found[f"raw records of {split}, {len(own):,}"] = verdict(own == records(right, split))
    found["statistics of train, greatest relative difference"] = relative_difference(
        statistics(left), statistics(right)
    )
    found["vocabularies"] = verdict(vocabularies(left) == vocabularies(right))
    one, two = (transformed(root, rows["eval"]) for root in (left, right))
    found[f"names of {len(one)} transformed columns"] = verdict(one.keys() == two.keys())
    found["transformed values, greatest difference"] = max(difference(one[name], two[name]) for name in one)
    return found


def compare_predictions(left: Path, right: Path) -> dict[str, object]:
    """Compares the predictions of the same rows."""
    one, two = ([json.loads(line) for line in path.read_text().splitlines()] for path in (left, right))
    found: dict[str, object] = {
        f"classes of {len(one):,} rows": verdict(column(one, "prediction") == column(two, "prediction"))
    }
    scores = [np.array(column(rows, "probability_1")) for rows in (one, two)]
    found["probabilities, greatest difference"] = difference(*scores)
    return found


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    """Returns the values of a column."""
    return [row[name] for row in rows]


def verdict(equal: bool) -> str:
    """Returns how the table says it."""
    return "equal" if equal else "DIFFER"


if __name__ == "__main__":
    compare = {"runs": compare_runs, "predictions": compare_predictions}[sys.argv[1]]
    print(json.dumps(compare(Path(sys.argv[2]), Path(sys.argv[3]))))
