"""Runs a package on taxi trips twice as Kubeflow's backend and launcher would, from the CSV to a model that predicts.

Both runs share one installation. The second package has another training section, so the nodes before the Trainer come
from the cache, and the model of the first run is the baseline of the second.
"""

import itertools
import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from fullpass.components.library_versions import line
from fullpass.components.push.push import rollback, rolled_back, served_version
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.record.provenance import config_hash, source_digest
from tests import REPOSITORY, warm_process
from tests.e2e.kubeflow_package import compiled, taxi_lines
from tests.kubeflow.backend.run import Backend
from tests.kubeflow.runtime.test_entrypoint_imports import not_in_the_small_image

pytestmark = [pytest.mark.e2e, pytest.mark.long]

SECRET = "s3cr3t-of-this-test"
PIPELINE = """\
name: taxi
data:
  source: {format: csv, path: trips.csv}
  derive: {big_tipper: tips > 0.2 * fare}
  split: {method: hash, ratios: {train: 8, eval: 2}}
label: {name: big_tipper, task: binary}
features:
  fare: {type: number, transforms: [{clip: {min: 0, max: 500}}, z_score]}
  payment_type: category
model: linear
training: {epochs: EPOCHS, batch_size: 128}
evaluation: {metrics: [auc], thresholds: {auc: {min: 0.5, not_worse_than: blessed, tolerance: 0.05}}}
notify: [{command: [python, tell.py, heard]}]
"""
TELL = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"
NODES = "nodes: {Ingest: {secrets: [{name: store, env: {STORE_KEY: key}}]}}\n"
SMALL = "registry.example/taxi-small:1.4.2"
# One task of each kind starts a new interpreter as in a cluster: a look-up, a node without TensorFlow, nodes with it,
# the exit task.
FRESH = {"find-inputs", "schema", "evaluator-to-report", "notify"}


def package_of(folder: Path, epochs: int) -> str:
    """Returns the package of a training of a number of epochs."""
    return compiled(folder, PIPELINE.replace("EPOCHS", str(epochs)), f"small_image: {SMALL}\n{NODES}")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kubeflow")
    (folder / "pipeline").mkdir()
    (folder / "pipeline" / "trips.csv").write_text("".join(taxi_lines()))
    (folder / "pipeline" / "tell.py").write_text(TELL)
    packages = [package_of(folder, epochs) for epochs in (1, 2)]
    backend = Backend(folder / "kfp", release="2.5")
    backend.secrets["store"] = {"key": SECRET}
    backend.starts_fresh = FRESH.__contains__
    backend.modules[SMALL] = folder / "small"
    backend.modules[SMALL].mkdir()
    absent = not_in_the_small_image()
    (backend.modules[SMALL] / "sitecustomize.py").write_text(f"import sys\nsys.modules |= dict.fromkeys({absent})\n")
    first = backend.run(packages[0], parallel=2)
    newer = Backend(folder / "kfp", release="2.17")
    newer.secrets, newer.metadata, newer._cache = backend.secrets, backend.metadata, backend._cache
    second = newer.run(packages[1], parallel=2)
    return folder, newer, first, second


def test_every_task_of_the_first_run_is_done(runs):
    _, _, first, _ = runs
    assert set(first.states.values()) == {"COMPLETE"} and len(first.states) == 12


def test_the_first_run_finds_no_baseline_and_says_so_without_a_trace(runs):
    _, _, first, _ = runs
    log = first.log("find-inputs")
    assert "no model was blessed before" in log and "Traceback" not in log and "ERROR" not in log


def test_nodes_without_tensorflow_ran_without_what_their_image_lacks(runs):
    folder, _, _, _ = runs
    executors = next(yaml.safe_load_all((folder / "p.yaml").read_text()))["deploymentSpec"]["executors"]
    assert {task for task in FRESH if executors[f"exec-{task}"]["container"]["image"] == SMALL} == FRESH - {
        "evaluator-to-report"
    }


def test_unchanged_files_are_a_cache_hit_down_to_training(runs):
    _, _, _, second = runs
    cached = {task for task, state in second.states.items() if state == "CACHED"}
    assert cached == {"ingest", "schema", "statistics-gen-to-span-comparison", "transform"}


def test_the_second_run_compares_with_the_model_that_the_first_one_blessed(runs):
    _, backend, first, second = runs
    blessings = [artifact["metadata"] for artifact in backend.metadata.artifacts("tfx.ModelBlessing")]
    assert [blessing["blessed"] for blessing in blessings] == [1.0, 1.0]
    assert "baseline_model" not in blessings[0]
    assert blessings[1]["baseline_model"] == blessings[0]["current_model"]
    assert f"/{first.id}/data-gate-and-trainer/" in blessings[0]["current_model"]
    assert f"/{second.id}/data-gate-and-trainer/" in blessings[1]["current_model"]


def test_the_page_of_each_run_draws_what_its_evaluation_measured(runs):
    _, backend, _, _ = runs
    evaluations, metrics, drawn = (
        backend.metadata.artifacts(title)
        for title in ("tfx.ModelEvaluation", "system.Metrics", "system.ClassificationMetrics")
    )
    assert len(evaluations) == len(metrics) == len(drawn) == 2
    for evaluation, shown, curves in zip(evaluations, metrics, drawn, strict=True):
        [all_rows, *_] = json.loads(backend.store.path(f"{evaluation['uri']}/measured.json").read_text())
        assert shown["metadata"]["auc"] == pytest.approx(all_rows["values"]["auc"])
        points = curves["metadata"]["confidenceMetrics"]
        area = sum(
            (b["falsePositiveRate"] - a["falsePositiveRate"]) * (a["recall"] + b["recall"]) / 2
            for a, b in itertools.pairwise(points)
        )
        assert area == pytest.approx(all_rows["values"]["auc"], abs=0.005)
    pages = [backend.store.path(page["uri"]).read_text() for page in backend.metadata.artifacts("system.HTML")]
    cards = [backend.store.path(card["uri"]).read_text() for card in backend.metadata.artifacts("system.Markdown")]
    # The gate's page of the second run comes from the cache.
    assert len(pages) == 3 and all(page.lstrip().lower().startswith("<!doctype html") for page in pages)
    assert len(cards) == 2 and all(card.startswith("# ") for card in cards)


def test_addresses_in_metadata_are_those_of_the_store(runs):
    _, backend, _, _ = runs
    assert [pushed["metadata"]["pushed"] for pushed in backend.metadata.artifacts("tfx.PushedModel")] == [1.0, 1.0]
    for blessing in backend.metadata.artifacts("tfx.ModelBlessing"):
        assert backend.store.keys(f"{blessing['metadata']['current_model']}/Format-Serving/saved_model.pb")


def test_rows_are_accounted_for_in_the_metadata(runs):
    _, backend, _, _ = runs
    [examples] = backend.metadata.artifacts("tfx.Examples")[:1]
    counts = json.loads(examples["metadata"]["counts"])
    assert counts["read"] == 15_002 == sum(counts["written"].values()) + counts["rows_quarantined"]


def test_each_run_pushed_a_version_and_wrote_a_report(runs):
    folder, backend, _, _ = runs
    assert len([entry for entry in (folder / "models" / "taxi").iterdir() if entry.name.isdigit()]) == 2
    keys = [key for key in backend.store.keys() if "/Report_report/" in key and key.endswith(".html")]
    pages = sorted(key.rpartition("/")[2] for key in keys)
    assert pages == ["model_card.html", "model_card.html", "report.html", "report.html"]


def test_receivers_are_told_of_both_runs(runs):
    folder, backend, first, second = runs
    heard = [json.loads(line) for line in (folder / "pipeline" / "heard").read_text().splitlines()]
    assert [told["run_id"] for told in heard] == [first.id, second.id]
    assert [told["event"] for told in heard] == ["success", "success"]
    pushed = sorted(str(entry) for entry in (folder / "models" / "taxi").iterdir() if entry.name.isdigit())
    assert [told["pushed_to"] for told in heard] == pushed
    for told in heard:
        assert told["text"] == f"taxi: success: pushed to {told['pushed_to']}" and told["exit_code"] == 0
        lineage = json.loads((Path(told["pushed_to"]) / "assets.extra" / "fullpass.json").read_text())["lineage"]
        assert told["metrics"] == lineage["metrics"] and told["model"] == lineage["model"]
        assert backend.store.keys(f"{told['report']}/report.html")


def test_the_pushed_model_answers(runs):
    folder, _, _, _ = runs
    trips = REPOSITORY / "examples" / "taxi" / "three_trips.jsonl"
    command = [sys.executable, "-m", "fullpass", "predict", str(folder / "models" / "taxi"), str(trips)]
    done = warm_process.run(command, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len([json.loads(line)["prediction"] for line in done.stdout.splitlines()]) == 3


def test_the_pushed_models_tell_run_configuration_code_and_addresses(runs):
    folder, backend, first, second = runs
    pushed = sorted(entry for entry in (folder / "models" / "taxi").iterdir() if entry.name.isdigit())
    told = [json.loads((model / "assets.extra" / "fullpass.json").read_text())["lineage"] for model in pushed]
    assert [lineage["run"] for lineage in told] == [first.id, second.id]
    assert [f"training: {{epochs: {n}," in told[n - 1]["config"]["yaml"] for n in (1, 2)] == [True, True]
    now = load(folder / "pipeline" / "pipeline.yaml")
    assert told[1]["config"] == {"hash": config_hash(now.config), "yaml": now.text}
    assert told[0]["config"]["hash"] != told[1]["config"]["hash"]
    release = {"fullpass": version("fullpass"), "source": source_digest(), "line": line()}
    assert told[1]["code"] == {**release, "user": None, "commit": None}
    assert [span["rows_read"] for span in told[1]["spans"]] == [15_002] and told[1]["metrics"]["auc"] > 0.5
    blessed = [artifact["metadata"]["current_model"] for artifact in backend.metadata.artifacts("tfx.ModelBlessing")]
    assert [lineage["model"] for lineage in told] == blessed and told[1]["baseline"]["model"] == blessed[0]
    # Transform came from the cache, so both exports have the same graph.
    assert told[0]["transform_graph"] == told[1]["transform_graph"]
    assert backend.store.keys(told[1]["transform_graph"]["uri"])


def test_a_run_after_a_rollback_follows_the_model_that_is_served_again(runs):
    folder, backend, _, _ = runs
    spec, platform = yaml.safe_load_all((folder / "p.yaml").read_text())
    del spec["root"]["dag"]["tasks"]["notify"]
    dag = spec["components"]["comp-pipeline"]["dag"]
    find = "find-inputs"
    dag["tasks"] = {find: dag["tasks"][find]}
    dag["tasks"][find]["inputs"]["parameters"]["made_from"]["runtimeValue"]["constant"] = "another training"
    package, serving = yaml.safe_dump_all([spec, platform]), folder / "models" / "taxi"
    blessings = backend.metadata.artifacts("tfx.ModelBlessing")
    first, second = (f"the baseline is {blessing['metadata']['current_model']}," for blessing in blessings)
    assert second in backend.run(package).log(find)
    version = rollback(serving)
    try:
        assert first in backend.run(package).log(find)
    finally:
        rollback(serving, to=rolled_back(serving)[0])
    assert served_version(serving) > version


def test_the_secret_is_in_no_package_artifact_metadata_or_log(runs):
    folder, _, _, _ = runs
    found = [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert found == []
