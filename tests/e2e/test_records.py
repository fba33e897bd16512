"""Every node after Ingest reads compressed, shuffled records in several files."""

import numpy as np
import pytest
import tensorflow as tf

from tests.e2e.conftest import Ran, run_command

pytestmark = pytest.mark.e2e
ROWS = 12_000
YAML = """\
name: taxi
root: runs
data:
  source: {format: csv, path: rows.csv}
  split: {method: random, ratios: {train: 3, eval: 1}}
  records: {compression: gzip, shard_mb: 1, shuffle: true}
label: {name: y, task: binary}
features: {a: number, b: number, word: category, note: text}
model: {kind: linear}
training: {epochs: 2, batch_size: 256}
evaluation: {metrics: [auc], thresholds: {auc: {min: 0.8}}}
push: {to: serving}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, ROWS))
    words = random.choice(["x", "y", "z"], ROWS)
    y = a - b + (words == "x") > 0
    with (folder / "rows.csv").open("w") as file:
        file.write("a,b,word,note,y\n")
        for i in np.argsort(y, kind="stable"):  # by label: what a shuffle is for
            file.write(f"{a[i]:.4f},{b[i]:.4f},{words[i]},{'note ' * 20},{int(y[i])}\n")
    (folder / "pipeline.yaml").write_text(YAML)
    done = run_command("fullpass", "run", folder / "pipeline.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return Ran(folder, done)


def test_all_nodes_agree_about_the_rows(ran):
    summary = ran.summary()
    assert summary["rows_read"] == ROWS == sum(summary["rows"].values())
    assert summary["blessed"] and summary["metrics"]["auc"] > 0.8
    assert "0 mismatches" in ran.done.stdout
    for node, output in (("Ingest", "examples"), ("Transform", "transformed_examples")):
        files = sorted((ran.artifact(node, output) / "Split-train").iterdir())
        assert len(files) > 1 and all(file.name.endswith(".tfrecord.gz") for file in files)
        records = tf.data.TFRecordDataset([str(file) for file in files], compression_type="GZIP")
        assert sum(1 for _ in records) == summary["rows"]["train"]


def test_statistics_count_every_row(ran):
    from tensorflow_metadata.proto.v0 import statistics_pb2

    (path,) = (ran.artifact("StatisticsGen", "statistics") / "Split-train").iterdir()
    found = statistics_pb2.DatasetFeatureStatisticsList.FromString(path.read_bytes())
    assert found.datasets[0].num_examples == ran.summary()["rows"]["train"]


def test_each_file_holds_both_labels_though_the_source_is_sorted_by_them(ran):
    for file in sorted((ran.artifact("Ingest", "examples") / "Split-train").iterdir()):
        records = tf.data.TFRecordDataset(str(file), compression_type="GZIP").as_numpy_iterator()
        features = [tf.train.Example.FromString(record).features.feature for record in records]
        labels = [(feature["y"].float_list.value or feature["y"].bytes_list.value)[0] for feature in features]
        share = np.mean([label in (1.0, b"1") for label in labels])
        assert 0.5 < share < 0.75
