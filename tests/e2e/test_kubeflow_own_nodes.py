"""Runs a package with three nodes of the user as Kubeflow's backend and launcher would, twice.

The second package has another FairnessCheck, which refuses the model.
"""

import hashlib
import json

import pytest

from tests import three_own_nodes
from tests.e2e.kubeflow_package import compiled
from tests.kubeflow.backend.run import Backend

pytestmark = [pytest.mark.e2e, pytest.mark.long]
OWN = {"fairness-check", "bulk-inferrer", "checksums"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    pipeline = folder / "pipeline"
    pipeline.mkdir()
    three_own_nodes.write(pipeline)
    text = (pipeline / "pipeline.yaml").read_text()
    backend = Backend(folder / "kfp", release="2.17")
    first = backend.run(compiled(folder, text), parallel=2)
    module = pipeline / "own_nodes.py"
    module.write_text(module.read_text().replace("widest=0.5", "widest=0.0"))
    return folder, backend, first, backend.run(compiled(folder, text), parallel=2)


def versions(folder):
    return [entry for entry in (folder / "models" / "taxi").iterdir() if entry.name.isdigit()]


def test_every_task_of_the_first_run_is_done(runs):
    _, _, first, _ = runs
    assert set(first.states) >= OWN and set(first.states.values()) == {"COMPLETE"}


def test_the_check_of_the_user_keeps_the_second_model_from_the_push(runs):
    folder, backend, _, second = runs
    blessings = backend.metadata.artifacts("tfx.ModelBlessing")
    verdicts = [one["metadata"] for one in blessings if one["uri"].endswith("/Blessing_blessing")]
    assert [verdict["blessed"] for verdict in verdicts] == [1.0, 0.0]
    assert {verdict["judged_by"] for verdict in verdicts} == {"Evaluator, FairnessCheck"}
    assert [pushed["metadata"]["pushed"] for pushed in backend.metadata.artifacts("tfx.PushedModel")] == [1.0, 0.0]
    assert len(versions(folder)) == 1
    registry = folder / "models" / "registry" / "own-nodes" / "blessed"
    assert len([entry for entry in registry.iterdir() if entry.suffix == ".json"]) == 1
    # What does not depend on the changed value comes from the cache.
    cached = {task for task, state in second.states.items() if state == "CACHED"}
    assert {"trainer", "checksums"} <= cached or {"data-gate-and-trainer", "checksums"} <= cached
    assert second.states["fairness-check"] == "COMPLETE"


def test_the_container_read_the_model_and_wrote_a_value(runs):
    _, backend, _, _ = runs
    [sums] = {one["uri"] for one in backend.metadata.artifacts("tfx.String")}
    lines = backend.store.path(sums).read_text().splitlines()
    found = dict(line.split("  ")[::-1] for line in lines)
    [model] = {one["uri"] for one in backend.metadata.artifacts("tfx.Model") if "rainer" in one["uri"]}
    content = backend.store.path(f"{model}/Format-Serving/saved_model.pb").read_bytes()
    assert found["./Format-Serving/saved_model.pb"] == hashlib.sha256(content).hexdigest()


def test_bulk_inferrer_wrote_predictions(runs):
    _, backend, first, _ = runs
    results = [one["uri"] for one in backend.metadata.artifacts("tfx.InferenceResult")]
    assert any(key for uri in set(results) for key in backend.store.keys(uri))
    assert first.log("bulk-inferrer")


def test_the_report_of_the_second_run_says_who_refused(runs):
    _, backend, _, _ = runs
    evaluations = backend.metadata.artifacts("tfx.ModelEvaluation")
    united = [one["uri"] for one in evaluations if one["uri"].endswith("/Blessing_evaluation")]
    verdict = json.loads(backend.store.path(f"{united[-1]}/verdict.json").read_text())
    assert verdict["reasons"][-1].startswith("FairnessCheck did not bless the model: auc differs by")
