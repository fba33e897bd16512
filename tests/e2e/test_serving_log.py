"""A model of the log of the model before it: rows as `fullpass serve` logged them, with the labels that came later."""

import json

import numpy as np
import pytest

from tests.components.serving.test_app_process import ask, serving
from tests.e2e.conftest import Owner
from tests.record_files import read_examples

pytestmark = [pytest.mark.e2e, pytest.mark.long]

FIRST = """\
name: trips
data:
  source: {format: csv, path: trips.csv}
  split: {method: hash, column: id}
  personal: [driver]
features: {km: number, zone: category}
label: {name: late, task: binary}
evaluation: {metrics: [auc]}
model: linear
training: {epochs: 2}
"""
SECOND = (
    FIRST.replace("{format: csv, path: trips.csv}", '{format: serving_log, path: "log/*/*.jsonl"}')
    .replace("column: id}", "column: log_id}\n  joins: {known: {source: {format: csv, path: labels.csv}, "
             "on: {log_id: trip}, duplicates: last}}\n  derive: {late: known.late}")
    .replace("task: binary", "task: binary, max_missing: 0.5")
)  # fmt: skip
ROWS = 400


def test_a_log_and_its_late_labels_become_the_next_model(tmp_path):
    draw = np.random.default_rng(5)
    km, zone = draw.gamma(2, 3, ROWS).astype(np.float32), draw.choice(["a", "b", "ü", ""], ROWS)
    late = (km + draw.normal(0, 2, ROWS) > 6).astype(int)
    trips = [f"t{n},{km[n]!s},{zone[n]},{late[n]},Ada" for n in range(ROWS)]
    (tmp_path / "trips.csv").write_text("\n".join(["id,km,zone,late,driver", *trips]) + "\n")
    owner = Owner(tmp_path, "trips", FIRST)
    owner("run", "pipeline.yaml")
    options = ("--log", str(tmp_path / "log"), "--log-id", "trip")
    with serving(owner.serving, *options) as (process, address, _):
        for begin in range(0, ROWS, 50):
            rows = [{"trip": f"t{n}", "km": float(km[n]), "zone": str(zone[n])} for n in range(begin, begin + 50)]
            ask(address, {"signature_name": "serving_raw", "instances": rows})
        process.terminate()
        process.wait()
    known = [f"t{n},{late[n]}" for n in range(ROWS) if n % 4]
    (tmp_path / "labels.csv").write_text("\n".join(["trip,late", "t1,0", *known]) + "\n")
    owner.config.write_text(SECOND)
    owner("run", "pipeline.yaml")
    assert sum(owner.summary()["rows"].values()) == ROWS
    assert json.loads((owner.serving / "current" / "assets.extra" / "fullpass.json").read_text())["name"] == "trips"
    newest = max((owner.root / "Ingest").rglob("Split-train/*"), key=lambda path: path.stat().st_mtime).parents[1]
    found = {(one["km"].float_list.value[0], one["zone"].bytes_list.value[0] if "zone" in one else b""): one
             for one in read_examples(*newest.glob("Split-*/*"))}  # fmt: skip
    assert found.keys() == {(km[n], str(zone[n]).encode()) for n in range(ROWS)}
