"""The steps of docs/from-tfx.md, each made in a copy of TFX's taxi template and run by its LocalDagRunner."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest

from tests import REPOSITORY
from tests.e2e.conftest import run_command
from tests.e2e.kubeflow_package import taxi_lines

pytestmark = [pytest.mark.e2e, pytest.mark.long]
PAGE = (REPOSITORY / "docs" / "from-tfx.md").read_text()
FENCE = re.compile(r"\*\*(\d)\. .*?```(?:yaml|python)\n(.*?)```", re.DOTALL)
STEPS = {int(number): block for number, block in FENCE.findall(PAGE)}


def template(folder: Path) -> None:
    """Copies the template as `tfx template copy` does, with all its components turned on and a short training."""
    shutil.copytree(
        Path(importlib.util.find_spec("tfx").submodule_search_locations[0], "experimental/templates/taxi"),
        folder,
        ignore=shutil.ignore_patterns("*_test.py", "e2e_tests", "__pycache__", "*.ipynb"),
    )
    for file in folder.rglob("*.py"):
        text = file.read_text().replace("tfx.experimental.templates.taxi.", "").replace("{{PIPELINE_NAME}}", "taxi")
        text = re.sub(r"# (components\.append\()", r"\1", text)
        text = re.sub(r"TRAIN_NUM_STEPS = \d+", "TRAIN_NUM_STEPS = 20", text)
        file.write_text(re.sub(r"EVAL_ACCURACY_THRESHOLD = [\d.]+", "EVAL_ACCURACY_THRESHOLD = 0.1", text))
    (folder / "data").mkdir()
    (folder / "data" / "data.csv").write_text("".join(taxi_lines(1_500)))
    (folder / "pipeline.yaml").write_text(STEPS[1].replace("min: 0.6", "min: 0.1"))


def replaced(text: str, step: int) -> str:
    """Returns the template's pipeline.py with the component of a step in place of the one of the same name."""
    name = STEPS[step].partition(" ")[0]
    ours = "".join(f"  {line}\n" for line in STEPS[step].splitlines())
    found, count = re.subn(rf"(?m)^  {name} = tfx\.components\.\w+\((?:[^()]|\([^()]*\))*\)\n", ours, text)
    assert count == 1, f"{name} is not assigned once in the template"
    return found


@pytest.mark.parametrize("steps", [(3,), (4,), (3, 4, 5)], ids=str)
def test_a_template_runs_with_the_components_of_a_step(tmp_path, steps):
    folder = tmp_path / "taxi"
    template(folder)
    pipeline = folder / "pipeline" / "pipeline.py"
    text = pipeline.read_text().replace("  components = []\n", f"  components = []\n  {STEPS[2].strip()}\n")
    for step in steps:
        text = replaced(text, step)
    pipeline.write_text(text.replace("from tfx import v1 as tfx", "import fullpass\nfrom tfx import v1 as tfx", 1))
    env = {"TF_USE_LEGACY_KERAS": "1", "PYTHONPATH": f"{folder}:{REPOSITORY}"}
    done = run_command("python", "local_runner.py", cwd=folder, env=env, fresh=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    root = folder / "tfx_pipeline_output" / "taxi"
    assert [*(root / "serving_model").iterdir()], "the Pusher of TFX obeys the blessing"
    if 4 in steps:
        [verdict] = (root / "Evaluator" / "evaluation").glob("*/verdict.json")
        metrics = {one["metric"]: one["value"] for one in json.loads(verdict.read_text())["metrics"]}
        assert 0 < metrics["auc"] < 1
    if 5 in steps:
        [manifest] = (root / "Ingest" / "examples").glob("*/ingest.json")
        assert json.loads(manifest.read_text())["read"] == 1_500


BY_HAND = """\
import fullpass
import tensorflow as tf
from tfx import v1 as tfx

own = fullpass.tfx_components("pipeline.yaml", root="own")
ingest = own.Ingest()
rows = ingest.outputs["examples"]
statistics = tfx.components.StatisticsGen(examples=rows)
schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"])
transform = own.Transform(examples=rows, schema=schema.outputs["schema"])
ready, graph = (transform.outputs[name] for name in ("transformed_examples", "transform_graph"))
trainer = own.Trainer(examples=ready, transform_graph=graph)
model, run = (trainer.outputs[name] for name in ("model", "model_run"))
parity = own.Parity(examples=rows, ready=ready, transform_graph=graph, model=model, model_run=run)
evaluator = own.Evaluator(examples=rows, model=model, model_run=run)
check = own.ServingCheck(model=model)
pusher = own.Pusher(
    model=model, blessing=evaluator.outputs["blessing"], parity=parity.outputs["report"],
    serving=check.outputs["report"],
)
tfx.orchestration.LocalDagRunner().run(tfx.dsl.Pipeline(
    pipeline_name="hand", pipeline_root="root",
    components=[ingest, statistics, schema, transform, trainer, parity, evaluator, check, pusher],
    metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config("metadata.db"),
))
print("tf.keras is", tf.keras.Model.__module__)
"""


def test_this_trainer_parity_and_serving_check_run_in_a_process_with_keras_2(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.csv").write_text("".join(taxi_lines(1_500)))
    (tmp_path / "pipeline.yaml").write_text(STEPS[1].replace("min: 0.6", "min: 0.1") + "training: {epochs: 2}\n")
    (tmp_path / "hand.py").write_text(BY_HAND)
    env = {"TF_USE_LEGACY_KERAS": "1", "PYTHONPATH": str(REPOSITORY)}
    done = run_command("python", "hand.py", cwd=tmp_path, env=env, fresh=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tf.keras is tf_keras" in done.stdout
    assert [*(tmp_path / "serving").glob("[0-9]*")]


def test_the_two_modules_run_as_they_are_by_the_yaml_and_a_change_of_what_they_import_trains_again(tmp_path):
    folder = tmp_path / "taxi"
    template(folder)
    file = folder / "pipeline.yaml"
    file.write_text(file.read_text() + STEPS[6].replace("train_steps: 1000", "train_steps: 20"))
    first = run_command("fullpass", "run", "pipeline.yaml", cwd=folder, timeout=900)
    assert first.returncode == 0, first.stdout + first.stderr
    [version] = (folder / "serving").glob("[0-9]*")
    assert json.loads((version / "assets.extra" / "fullpass.json").read_text())["lineage"]["blessing"]["blessed"]
    measured = run_command("fullpass", "evaluate", "serving", "data/data.csv", cwd=folder, timeout=300)
    assert measured.returncode == 0 and "1,500" in measured.stdout, measured.stdout + measured.stderr
    for command in (["predict", "serving", "data/data.csv"], ["refresh"]):
        refused = run_command("fullpass", *command, cwd=folder, timeout=300)
        assert refused.returncode == 1, command
        assert "takes serialized tf.Examples only" in refused.stdout + refused.stderr
    again = run_command("fullpass", "run", "pipeline.yaml", cwd=folder, timeout=900)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Trainer: ok" not in again.stdout + again.stderr
    constants = folder / "models" / "keras_model" / "constants.py"
    constants.write_text(constants.read_text().replace("[16, 8]", "[4]"))
    changed = run_command("fullpass", "run", "pipeline.yaml", "--to", "Evaluator", cwd=folder, timeout=900)
    assert "Trainer: ok" in changed.stdout + changed.stderr
    assert "last blessed" in changed.stdout


def test_the_last_step_is_a_pipeline_of_the_yaml(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.csv").write_text("".join(taxi_lines(1_500)))
    (tmp_path / "pipeline.yaml").write_text(STEPS[1].replace("min: 0.6", "min: 0.1"))
    done = run_command("fullpass", "run", "pipeline.yaml", cwd=tmp_path, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr
