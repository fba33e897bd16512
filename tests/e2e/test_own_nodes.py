"""A pipeline with three TFX nodes of the user: a check that may refuse the model, BulkInferrer, and a container.

A program that stands for Docker runs the container.
"""

import json
import math
import os

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from tests import docker_program, three_own_nodes
from tests.e2e.conftest import Owner, run_command

pytestmark = [pytest.mark.e2e, pytest.mark.long]
BY_TFX = """\
from tfx import v1 as tfx
import fullpass

tfx.orchestration.LocalDagRunner().run(fullpass.tfx_pipeline("pipeline.yaml", root="by-tfx"))
"""


@pytest.fixture(scope="module")
def owner(tmp_path_factory) -> Owner:
    owner = Owner(
        tmp_path_factory.mktemp("owner"), "own-nodes", (three_own_nodes.EXAMPLE / "pipeline.yaml").read_text()
    )
    three_own_nodes.write(owner.folder)
    docker_program.install(owner.folder / "bin")
    os.environ["PATH"] = f"{owner.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    owner("run", "pipeline.yaml")
    return owner


def test_the_nodes_of_the_user_run_where_they_stand(owner):
    nodes = list(owner.summary()["nodes"])
    assert nodes.index("Evaluator") < nodes.index("FairnessCheck") < nodes.index("Blessing") < nodes.index("Pusher")
    assert nodes.index("Pusher") < nodes.index("BulkInferrer")
    assert {node["status"] for node in owner.summary()["nodes"].values()} == {"ok"}
    [version] = owner.versions()
    assert owner.lineage(version)["blessing"]["by"] == "Evaluator, FairnessCheck"


def test_the_container_wrote_the_checksums_of_the_model(owner):
    [sums] = (owner.root / "Checksums" / "sums").glob("*/value")
    assert "./Format-Serving/saved_model.pb" in sums.read_text()
    assert "busybox:1.36" in (owner.folder / "bin" / "calls").read_text()


def test_bulk_inferrer_predicts_every_eval_row(owner):
    [made] = (owner.root / "BulkInferrer" / "inference_result").iterdir()
    files = [str(file) for file in made.glob("prediction_logs-*.gz")]
    logs = [
        prediction_log_pb2.PredictionLog.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(files, compression_type="GZIP")
    ]
    assert len(logs) == owner.summary()["rows"]["eval"]
    assert all(log.predict_log.response.outputs for log in logs)


def test_the_command_line_of_tfx_runs_them_as_one_run(owner, tmp_path):
    env = {"HOME": str(tmp_path), "FULLPASS_CONFIG": str(owner.config)}
    where = "import fullpass.pipeline.local as local; print(local.__file__)"  # as docs/running.md says
    file = run_command("python", "-c", where, fresh=True).stdout.strip()
    listed = len(owner.say("runs", "pipeline.yaml"))
    for command, more in (("pipeline", f"--pipeline_path={file}"), ("run", "--pipeline_name=own-nodes")):
        done = run_command("tfx", command, "create", "--engine=local", more, cwd=owner.folder, env=env, fresh=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(owner.say("runs", "pipeline.yaml")) == listed + (command == "run")
    assert {"FairnessCheck", "BulkInferrer", "Checksums"} <= owner.summary()["nodes"].keys()


def test_a_runner_of_tfx_gives_the_same_metrics(owner):
    """The runner trains anew in a root of its own."""
    (owner.folder / "by_tfx.py").write_text(BY_TFX)
    done = run_command("python", "by_tfx.py", cwd=owner.folder, fresh=True)
    assert done.returncode == 0, done.stdout + done.stderr
    own, stock = (
        json.loads((max((root / "Blessing" / "evaluation").iterdir()) / "verdict.json").read_text())
        for root in (owner.root, owner.folder / "by-tfx")
    )
    values = [{one["metric"]: one["value"] for one in verdict["metrics"]} for verdict in (own, stock)]
    assert own["blessed"] == stock["blessed"] and values[0].keys() == values[1].keys()
    assert all(math.isclose(values[0][name], values[1][name], abs_tol=1e-6) for name in values[0])


def test_a_refusal_keeps_the_model_from_the_push_until_a_person_decides(owner):
    module, first = owner.folder / "own_nodes.py", owner.versions()
    lines = (owner.folder / "trips.csv").read_text()
    module.write_text(module.read_text().replace("widest=0.5", "widest=0.0"))
    (owner.folder / "trips.csv").write_text(lines + "9999,3.00,card,1\n")
    done = owner.run("run", "pipeline.yaml")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "FairnessCheck did not bless the model: auc differs by" in done.stdout
    assert owner.versions() == first
    told = owner.summary()
    assert (told["blessed"], told["nodes"]["BulkInferrer"]["status"]) == (False, "ok")

    # The refused model is not the last blessed one, and only what depends on the changed code runs again.
    module.write_text(module.read_text() + "# as before\n")
    assert owner.run("run", "pipeline.yaml").returncode == 3
    nodes = {node: facts["status"] for node, facts in owner.summary()["nodes"].items()}
    assert [nodes[node] for node in ("Trainer", "Evaluator", "BulkInferrer")] == ["cached"] * 3
    assert nodes["FairnessCheck"] == "ok"

    assert "Blessed by" in owner("bless", "pipeline.yaml", "--force", "--why", "the slices are small")
    assert len(owner.versions()) == len(first) + 1


def test_a_part_of_the_graph_may_begin_and_end_with_an_own_node(owner):
    done = owner.run("run", "pipeline.yaml", "--from", "FairnessCheck", "--to", "Blessing", "--fresh")
    ran = [node for node, facts in owner.summary()["nodes"].items() if facts["status"] == "ok"]
    assert (done.returncode, ran) == (3, ["FairnessCheck", "Blessing"])
    unknown = owner.run("run", "pipeline.yaml", "--to", "Fairness")
    assert unknown.returncode == 2
    assert "FairnessCheck" in unknown.stderr


def test_without_them_the_run_knows_them_no_more(owner):
    owner.config.write_text(owner.config.read_text().replace("nodes: own_nodes:add\n", ""))
    owner.run("run", "pipeline.yaml")
    assert not {"FairnessCheck", "Blessing", "BulkInferrer"} & owner.summary()["nodes"].keys()
