"""The container of a watch as Kubeflow's launcher runs it, on a month's first days with a model that a run pushed."""

import json
import shutil

import pytest

from fullpass.kubeflow.compile.compile import compile_watch
from fullpass.kubeflow.compile.package import to_yaml
from fullpass.kubeflow.environment import load_environment
from fullpass.pipeline.authoring.loading.load import load
from tests.components.watch.watched_month import EXAMPLE
from tests.e2e.conftest import run_command
from tests.e2e.kubeflow_package import ENVIRONMENT
from tests.kubeflow.backend.launcher import TaskFailed
from tests.kubeflow.backend.run import Backend

pytestmark = [pytest.mark.integration, pytest.mark.long]


def package_of(folder) -> str:
    (folder / "env.yaml").write_text(ENVIRONMENT.format(folder=folder).replace('"2.5"', '"2.17"'))
    loaded = load(folder / "pipeline" / "pipeline.yaml")
    return to_yaml(compile_watch(loaded, load_environment(folder / "env.yaml")).package)


def test_a_watch_in_a_container_finds_what_the_command_finds(tmp_path):
    pipeline, models = tmp_path / "pipeline", tmp_path / "models"
    shutil.copytree(EXAMPLE, pipeline)
    for words in (("train",), ("1",), ("2",)):
        if words == ("1",):
            done = run_command("fullpass", "run", "pipeline.yaml", cwd=pipeline, timeout=550)
            assert done.returncode == 0, done.stdout + done.stderr
        done = run_command("python", "month.py", *words, cwd=pipeline)
        assert done.returncode == 0, done.stderr
    told = run_command("fullpass", "watch", "pipeline.yaml", "--at", "2026-01-03", cwd=pipeline)
    assert told.returncode == 0, told.stderr
    expected = json.loads((pipeline / "runs" / "orders" / "watch" / "watch.json").read_text())
    with pytest.raises(TaskFailed, match="no model is served"):
        Backend(tmp_path / "first", release="2.17").run(package_of(tmp_path), {"date": "2026-01-03"})
    shutil.copytree(pipeline / "serving", models / "taxi", symlinks=True)
    kept = models / "registry" / "orders"
    shutil.copytree(pipeline / "runs" / "orders" / "span_statistics", kept / "span_statistics")
    backend = Backend(tmp_path / "kfp", release="2.17")
    result = backend.run(package_of(tmp_path), {"date": "2026-01-03"})
    assert "No change is beyond its limit." in result.log("watch")
    [metrics] = backend.metadata.artifacts("system.Metrics")
    assert {"rows": expected["rows"], "findings": 0, "stops": 0}.items() <= metrics["metadata"].items()
    found = json.loads((kept / "watch" / "watch.json").read_text())
    assert found["rows"] == expected["rows"] and (kept / "watch" / "watch.html").is_file()
    [mine], [its] = found["versions"], expected["versions"]
    assert mine["hours"] == its["hours"] and mine["days"] == its["days"]
