"""A batch prediction as Kubeflow's backend and launcher run it, on a model that was trained for the tests."""

import json
import shutil
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.kubeflow.compile.compile import compile_prediction
from fullpass.kubeflow.compile.package import to_yaml
from fullpass.kubeflow.environment import load_environment
from fullpass.kubeflow.runtime.predict_rows import date_of, dated
from fullpass.kubeflow.runtime.registry import FolderRegistry
from fullpass.pipeline.authoring.loading.load import load
from tests import REPOSITORY
from tests.e2e.kubeflow_package import ENVIRONMENT
from tests.kubeflow.backend.launcher import TaskFailed
from tests.kubeflow.backend.run import Backend
from tests.trainer.conftest import exported, planted

__all__ = ["exported", "planted"]

PREDICT = """
predict:
  rows: rows/{{YYYY}}-{{MM}}-{{DD}}.csv
  output: {folder}/models/out/{{YYYY}}-{{MM}}-{{DD}}.parquet
  model: {model}
  lag: 1d
"""


def package_of(folder, model: str, release: str = "2.17") -> str:
    text = (ENVIRONMENT + PREDICT).format(folder=folder, model=model)
    (folder / "env.yaml").write_text(text.replace('"2.5"', f'"{release}"'))
    taxi = REPOSITORY / "examples" / "taxi" / "pipeline.yaml"
    return to_yaml(compile_prediction(load(taxi), load_environment(folder / "env.yaml")).package)


@pytest.fixture
def folder(exported, tmp_path):
    """A volume with a pushed model, and rows of two days."""
    shutil.copytree(exported("binary").directory, tmp_path / "models" / "taxi" / "17")
    (tmp_path / "pipeline" / "rows").mkdir(parents=True)
    for day, rows in (("2026-01-08", "r1,0.5,a\nr2,oops,b\n"), ("2026-01-02", "r3,2,b\n")):
        (tmp_path / "pipeline" / "rows" / f"{day}.csv").write_text(f"id,x,kind\n{rows}")
    return tmp_path


@pytest.mark.integration
def test_a_run_predicts_the_rows_of_its_date_with_the_newest_pushed_model(folder):
    """The backend plans its runs for 2026-01-09."""
    backend = Backend(folder / "kfp", release="2.17")
    result = backend.run(package_of(folder, "pushed"))
    found = pq.read_table(folder / "models" / "out" / "2026-01-08.parquet").to_pylist()
    assert [(row["id"], row["prediction"] is None, row["bad_row"]) for row in found] == [
        ("r1", False, None),
        ("r2", True, "row 3: column 'x': not a number"),
    ]
    assert "1 of 2 rows have no prediction" in result.log("predict")
    [metrics] = backend.metadata.artifacts("system.Metrics")
    assert {"rows": 2, "bad_rows": 1}.items() <= metrics["metadata"].items()

    backend.run(package_of(folder, "pushed"), {"date": "2026-01-02"})
    assert pq.read_table(folder / "models" / "out" / "2026-01-02.parquet")["id"].to_pylist() == ["r3"]
    with pytest.raises(TaskFailed, match=r"2026-01-03.csv: no such file"):
        backend.run(package_of(folder, "pushed"), {"date": "2026-01-03"})


@pytest.mark.integration
def test_the_newest_blessed_model_of_the_registry_predicts(folder, exported):
    backend = Backend(folder / "kfp", release="2.5")
    with pytest.raises(TaskFailed, match="no blessed model. Run the pipeline first"):
        backend.run(package_of(folder, "blessed", "2.5"))
    registry = FolderRegistry(str(folder / "models" / "registry"))
    for name in ("old", "new", "rolled-back"):
        uri = f"minio://mlpipeline/v2/artifacts/taxi/{name}/model"
        registry.record_blessed("taxi", uri, "blessing", name)
    backend.store.upload(exported("binary").directory, "minio://mlpipeline/v2/artifacts/taxi/new/model/Format-Serving")
    put_aside = folder / "models" / "taxi" / "rolled_back-18" / "assets.extra"
    put_aside.mkdir(parents=True)
    origin = {"model": "minio://mlpipeline/v2/artifacts/taxi/rolled-back/model", "version": 18}
    state_file.write(put_aside / "origin.json", origin)
    output = str(folder / "models" / "other.jsonl")
    result = backend.run(package_of(folder, "blessed", "2.5"), {"date": "2026-01-02", "output": output})
    assert set(result.states.values()) == {"COMPLETE"} and "taxi/new/model" in result.log("find-model")
    [shard] = (folder / "models" / "other.jsonl").glob("part-*")
    assert json.loads(shard.read_text())["id"] == "r3"


def test_the_date_of_a_run():
    day = 86_400
    assert date_of({"date": "2026-01-02T03"}, day) == datetime(2026, 1, 2, 3)
    assert date_of({"date": "", "schedule_time": "2026-01-09T13:00:00Z"}, day) == datetime(2026, 1, 8, 13, tzinfo=UTC)
    before = datetime.now(UTC)
    assert before <= date_of({"date": ""}, 0) <= datetime.now(UTC)
    with pytest.raises(UserError, match="date: give a date such as 2026-01-02.*Received: 'monday'"):
        date_of({"date": "monday"}, 0)
    assert dated("a/{YYYY}/{MM}{DD}-{HH}/*", datetime(2026, 1, 2, 3)) == "a/2026/0102-03/*"
