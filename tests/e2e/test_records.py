"""Columns with arbitrary names, in compressed, shuffled records in several files, from the CSV to the predictions."""

import csv
import json

import numpy as np
import pytest

from tests.e2e.conftest import Ran, run_command
from tests.record_files import read_examples, read_records

pytestmark = [pytest.mark.e2e, pytest.mark.long]
ROWS, POSITIVE = 12_000, 7_440
NUMBER, WORD, LABEL = 'größe "in" km, 東京', "pick-up / zone.name", "will it rain?"
YAML = f"""\
name: taxi
root: runs
data:
  source: {{format: csv, path: rows.csv}}
  split: {{method: stratified, ratios: {{train: 3, eval: 1}}}}
  records: {{compression: gzip, shard_mb: 1, shuffle: true}}
label: {{name: {LABEL!r}, task: binary, positive: "yes"}}
features:
  {NUMBER!r}: number
  b: number
  {WORD!r}: category
  note: text
  bucket: {{type: number, column: {NUMBER!r}, transforms: [{{bucketize: {{buckets: 4}}}}]}}
crosses: [{{inputs: [{WORD!r}, bucket], hash_buckets: 20}}]
model: {{kind: linear}}
training: {{epochs: 2, batch_size: 256}}
evaluation: {{metrics: [auc], slices: [[{WORD!r}]], thresholds: {{auc: {{min: 0.8}}}}}}
push: {{to: serving}}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, ROWS))
    words = random.choice(["a b", "c/d", "é"], ROWS)
    by_label = np.argsort(a - b + (words == "é"))
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([NUMBER, "b", WORD, "note", LABEL])
        for place, i in enumerate(by_label):  # sorted by label, so the shuffle matters
            label = "yes" if place >= ROWS - POSITIVE else "no"
            rows.writerow([f"{a[i]:.4f}", f"{b[i]:.4f}", words[i], "note " * 20, label])
    (folder / "pipeline.yaml").write_text(YAML, encoding="utf-8")
    done = run_command("fullpass", "run", folder / "pipeline.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return Ran(folder, done)


def test_all_nodes_agree_about_the_rows(ran):
    summary = ran.summary()
    assert summary["rows_read"] == ROWS and summary["rows"] == {"train": 9_000, "eval": 3_000}
    assert summary["blessed"] and summary["metrics"]["auc"] > 0.8
    assert "3,000 rows equal in training and serving, 0 mismatches" in ran.done.stdout
    for node, output in (("Ingest", "examples"), ("Transform", "transformed_examples")):
        files = sorted((ran.artifact(node, output) / "Split-train").iterdir())
        assert len(files) > 1 and all(file.name.endswith(".tfrecord.gz") for file in files)
        assert sum(1 for _ in read_records(*files)) == summary["rows"]["train"]


def test_statistics_count_every_row(ran):
    from tensorflow_metadata.proto.v0 import statistics_pb2

    (path,) = (ran.artifact("StatisticsGen", "statistics") / "Split-train").iterdir()
    found = statistics_pb2.DatasetFeatureStatisticsList.FromString(path.read_bytes())
    assert found.datasets[0].num_examples == ran.summary()["rows"]["train"]


def test_each_file_holds_both_labels_though_the_source_is_sorted_by_them(ran):
    for file in sorted((ran.artifact("Ingest", "examples") / "Split-train").iterdir()):
        share = np.mean([features[LABEL].bytes_list.value[0] == b"yes" for features in read_examples(file)])
        assert 0.5 < share < 0.75


def test_the_pushed_model_answers_by_these_names(ran, tmp_path):
    asked = [{NUMBER: 3.0, WORD: "é"}, {NUMBER: -3.0, WORD: "a b"}]
    (tmp_path / "asked.jsonl").write_text("\n".join(json.dumps(row) for row in asked), encoding="utf-8")
    out = tmp_path / "answers.jsonl"
    done = run_command("fullpass", "predict", ran.folder / "serving", tmp_path / "asked.jsonl", "-o", out)
    assert done.returncode == 0, done.stdout + done.stderr
    rainy, dry = (json.loads(line) for line in out.read_text().splitlines())
    assert rainy[NUMBER] == 3.0 and rainy[WORD] == "é"
    assert rainy["probability_yes"] > dry["probability_yes"]
