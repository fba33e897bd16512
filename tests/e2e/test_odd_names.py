"""Columns may be called anything: from the file to an answer of the pushed model."""

import csv
import json

import numpy as np
import pytest

from tests.e2e.conftest import Ran, run_command

pytestmark = pytest.mark.e2e
NUMBER, WORD, LABEL = 'größe "in" km, 東京', "pick-up / zone.name", "will it rain?"
YAML = f"""\
name: odd
root: runs
data:
  source: {{format: csv, path: rows.csv}}
  split: {{method: stratified, ratios: {{train: 2, eval: 1}}}}
label: {{name: {LABEL!r}, task: binary, positive: "yes"}}
features:
  {NUMBER!r}: number
  {WORD!r}: category
  bucket: {{type: number, column: {NUMBER!r}, transforms: [{{bucketize: {{buckets: 4}}}}]}}
crosses: [{{inputs: [{WORD!r}, bucket], hash_buckets: 20}}]
model: {{kind: linear}}
training: {{epochs: 2, batch_size: 64}}
evaluation: {{metrics: [auc], slices: [[{WORD!r}]]}}
push: {{to: serving}}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    random = np.random.default_rng(1)
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([NUMBER, WORD, LABEL])
        for size, zone in zip(random.normal(size=300), random.choice(["a b", "c/d", "é"], 300), strict=True):
            rows.writerow([f"{size:.3f}", zone, "yes" if size + (zone == "é") > 0 else "no"])
    (folder / "pipeline.yaml").write_text(YAML, encoding="utf-8")
    done = run_command("fullpass", "run", folder / "pipeline.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return Ran(folder, done)


def test_the_chain_takes_them(ran):
    newest = sorted((ran.folder / "runs" / "odd" / "logs").iterdir())[-1]
    summary = json.loads((newest / "summary.json").read_text())
    assert summary["rows"] == {"train": 200, "eval": 100} and summary["blessed"]
    assert "100 rows equal in training and serving, 0 mismatches" in ran.done.stdout


def test_the_pushed_model_answers_by_these_names(ran, tmp_path):
    asked = [{NUMBER: 3.0, WORD: "é"}, {NUMBER: -3.0, WORD: "a b"}]
    (tmp_path / "asked.jsonl").write_text("\n".join(json.dumps(row) for row in asked), encoding="utf-8")
    out = tmp_path / "answers.jsonl"
    done = run_command("fullpass", "predict", ran.folder / "serving", tmp_path / "asked.jsonl", "-o", out)
    assert done.returncode == 0, done.stdout + done.stderr
    rainy, dry = (json.loads(line) for line in out.read_text().splitlines())
    assert rainy[NUMBER] == 3.0 and rainy[WORD] == "é"
    assert rainy["probability_yes"] > dry["probability_yes"]
