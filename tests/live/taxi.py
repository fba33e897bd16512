"""The taxi pipeline of the checks of Beam's runners, and what two runners must make of it alike.

A check defines the fixture `outputs`: output -> its folder, by nodes in their own process and by nodes on the runner.
"""

import importlib.util
import os
from pathlib import Path

import pytest

from tests import REPOSITORY

WORKERS = int(os.environ.get("WORKERS") or 2)
COPIES = int(os.environ.get("COPIES") or WORKERS)  # of the rows, for a file of every split for each worker
TRAIN, EVAL = "Split-train", "Split-eval"
ROWS = {TRAIN: COPIES * 12_065, EVAL: COPIES * 2_937}  # equal rows are in one split


def taxi_pipeline(folder: Path) -> Path:
    """Writes the taxi pipeline and COPIES of its rows to a folder, for small files and a short training."""
    tfx = importlib.util.find_spec("tfx").submodule_search_locations[0]
    data = "package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"
    header, trips = Path(f"{tfx}/examples/chicago_taxi_pipeline/data/simple/data.csv").read_bytes().split(b"\n", 1)
    (folder / "trips.csv").write_bytes(header + b"\n" + COPIES * trips)
    text = (REPOSITORY / "examples" / "taxi" / "pipeline.yaml").read_text()
    changes = {data: "trips.csv", "  split:\n": "  records: {shard_mb: 1}\n  split:\n", "epochs: 10": "epochs: 1"}
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "pipeline.yaml").write_text(text)
    return folder / "pipeline.yaml"


def rows(examples: Path, row_id: str) -> dict[str, dict[int, bytes]]:
    """Returns split -> row id -> the example as it was written."""
    import tensorflow as tf

    found: dict[str, dict[int, bytes]] = {}
    for split in sorted(examples.glob("Split-*")):
        kind = found.setdefault(split.name, {})
        for file in sorted(split.iterdir()):
            compression = "GZIP" if file.suffix == ".gz" else ""
            for record in tf.data.TFRecordDataset(str(file), compression_type=compression).as_numpy_iterator():
                example = tf.train.Example.FromString(record)
                key = example.features.feature[row_id].int64_list.value[0]
                assert key not in kind, f"row {key} was written twice"
                kind[key] = example.SerializeToString(deterministic=True)
    return found


def test_every_row_is_ingested_once_and_the_same(outputs):
    from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID

    here, there = (rows(made["examples"], RAW_ROW_ID) for made in outputs)
    assert {split: len(found) for split, found in here.items()} == ROWS
    assert here == there


def test_the_transform_graph_has_the_same_constants_and_vocabularies(outputs):
    import tensorflow_transform as tft

    here, there = (made["transform_graph"] for made in outputs)
    assets = [{f.name: f.read_bytes() for f in (g / "transform_fn" / "assets").iterdir()} for g in (here, there)]
    assert assets[0] == assets[1] and len(assets[0]) >= 3
    schemas = [tft.TFTransformOutput(str(graph)).transformed_metadata.schema for graph in (here, there)]
    assert schemas[0] == schemas[1]


def test_every_transformed_row_is_written_once_and_the_same_to_the_last_bit(outputs):
    from fullpass.preprocessing.columns.outputs import ROW_ID

    here, there = (rows(made["transformed_examples"], ROW_ID) for made in outputs)
    assert {split: len(found) for split, found in here.items()} == ROWS
    assert here == there, "constants that differ in the last bit would make other z-scores"


def test_statistics_count_the_same(outputs):
    import tensorflow_data_validation as tfdv

    def counts(made: dict[str, Path]) -> dict[tuple[str, str], tuple]:
        found = {}
        for split in sorted(made["statistics"].glob("Split-*")):
            [of_split] = tfdv.load_stats_binary(str(split / "FeatureStats.pb")).datasets
            for one in of_split.features:
                common = (one.num_stats if one.HasField("num_stats") else one.string_stats).common_stats
                range_ = (one.num_stats.min, one.num_stats.max) if one.HasField("num_stats") else ()
                found[split.name, one.path.step[0]] = (common.num_non_missing, common.num_missing, *range_)
        return found

    here, there = map(counts, outputs)
    assert here == there and len(here) > 20


def test_the_evaluator_measures_the_same(outputs):
    from fullpass.components.evaluation.measure.measured_metrics import read_measured

    every = [read_measured(str(made["evaluation"])) for made in outputs]
    here, there = ({(rows.keys, rows.newest): rows for rows in measured} for measured in every)
    assert here.keys() == there.keys() and len(here) > 20
    assert here[(), False].examples == ROWS[EVAL]
    assert {key: rows.examples for key, rows in here.items()} == {key: rows.examples for key, rows in there.items()}
    for key, rows_here in here.items():
        close = {"rel": 1e-9, "abs": 1e-9, "nan_ok": True}
        assert there[key].values == pytest.approx(rows_here.values, **close)
        assert there[key].errors == pytest.approx(rows_here.errors, **close)
    verdicts = [[file.name for file in made["blessing"].iterdir()] for made in outputs]
    assert verdicts[0] == verdicts[1]
