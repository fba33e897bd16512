"""The package of a pipeline with nodes of the user: each has a task of its own, with the settings of its node."""

import re

import pytest
import yaml

from fullpass.base.errors import UserError
from fullpass.components.library_versions import line
from tests import three_own_nodes
from tests.kubeflow.compile.package_lint import lint
from tests.kubeflow.conftest import ENVIRONMENT, plan_of

pytestmark = pytest.mark.integration
NODES = """\
nodes:
  Checksums: {memory: {request: 1Gi, limit: 1Gi}, env: {LEVEL: "2"}, cache: false}
  FairnessCheck: {image: "registry.example/fair:2", cpu: {request: "2"}, retries: {count: 1, backoff: 1m}}
"""
SHORT = ENVIRONMENT.partition("nodes:")[0]


@pytest.fixture
def compile_(tmp_path):
    """Returns `compile(environment, edit={old: new})`, with replaced texts in own_nodes.py or the YAML."""

    def compile_(environment: str = SHORT + NODES, edit: dict[str, str] | None = None):
        from fullpass.kubeflow.compile.compile import compile_package
        from fullpass.kubeflow.environment import load_environment
        from fullpass.pipeline.authoring.loading.load import load

        three_own_nodes.write(tmp_path)
        for file in (tmp_path / "own_nodes.py", tmp_path / "pipeline.yaml"):
            for old, new in (edit or {}).items():
                file.write_text(file.read_text().replace(old, new))
        (tmp_path / "env.yaml").write_text(environment)
        return compile_package(load(tmp_path / "pipeline.yaml"), load_environment(tmp_path / "env.yaml"))

    return compile_


def test_the_tasks_of_three_own_nodes_are_the_golden_ones(compile_, golden):
    """The other tasks are those of every package; those with the verdict are read below."""
    package = compile_().package
    own = ("fairness-check", "bulk-inferrer", "checksums")
    shown = {
        name: {
            "task": package.tasks[name],
            "component": package.component(package.tasks[name]),
            "executor": package.executors[f"exec-{name}"],
            "kubernetes": package.kubernetes[f"exec-{name}"],
        }
        for name in own
    }
    text = yaml.safe_dump(shown, width=1_000_000).replace(line(), "(the line of TFX)")
    golden("kubeflow_own_nodes.yaml", re.sub(r"--code=[0-9a-f]{16}", "--code=(the digest of the code)", text))


@pytest.mark.parametrize("release", ["2.5", "2.17"])
def test_the_backend_can_run_it(compile_, release):
    assert lint(compile_(SHORT.replace('"2.5"', f'"{release}"')).package, release) == []


def test_a_container_has_the_image_of_the_component_and_the_settings_of_its_node(compile_):
    package = compile_().package
    container = package.executors["exec-checksums"]["container"]
    assert container["image"] == "busybox:1.36"
    assert container["command"][3:] == [
        "{{$.inputs.artifacts['model'].path}}",
        "{{$.inputs.parameters['files']}}",
        "{{$.outputs.artifacts['sums'].path}}",
    ]
    assert container["resources"]["memoryLimit"] == 1.073741824
    assert {"name": "LEVEL", "value": "2"} in container["env"]
    tasks = package.tasks
    assert tasks["checksums"]["cachingOptions"]["enableCache"] is False
    # A copy of the image in a registry of the cluster is named like any image.
    environment = SHORT + 'nodes: {Checksums: {image: "registry.example/busybox:1.36"}}\n'
    assert compile_(environment).package.executors["exec-checksums"]["container"]["image"].startswith("registry.")


def test_a_component_of_the_user_runs_in_its_image_and_the_pusher_waits_for_it(compile_):
    package = compile_().package
    task, plan = plan_of(package, "FairnessCheck")
    assert (task, plan["executor"]) == ("fairness-check", "fullpass_user.own_nodes.FairnessCheck_Executor")
    assert package.executors["exec-fairness-check"]["container"]["image"] == "registry.example/fair:2"
    assert package.tasks[task]["retryPolicy"]["maxRetryCount"] == 1
    deciding, united = plan_of(package, "Blessing")
    assert deciding == plan_of(package, "Pusher")[0] and task in package.tasks[deciding]["dependentTasks"]
    assert "records" in united and "records" not in plan_of(package, "Evaluator")[1]
    assert deciding in package.tasks["bulk-inferrer"]["dependentTasks"]


def test_a_change_of_the_code_changes_what_kubeflow_caches_of_its_nodes_only(compile_):
    first = compile_().package.executors
    later = compile_(edit={"of 50 rows": "of fifty rows"}).package.executors
    changed = {label for label in first if first[label] != later[label]}
    assert changed == {"exec-fairness-check"}


def test_receivers_are_told_when_the_own_nodes_have_ended_too(compile_):
    text = {"model: linear": "model: linear\nnotify: [{command: [tell]}]"}
    environment = SHORT.replace('"2.5"', '"2.14"')
    package = compile_(environment, text).package
    assert {"bulk-inferrer", "checksums"} <= set(package.tasks["record-outcome"]["dependentTasks"])
    source = package.tasks["record-outcome"]["inputs"]["artifacts"]["evaluation"]["taskOutputArtifact"]
    assert source["outputArtifactKey"] == "Blessing_evaluation"


IMPORTER = 'tfx.dsl.Importer(source_uri="/m", artifact_type=standard_artifacts.Model)'


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('return {sums: ["Report"], ', f"return {{{IMPORTER}: [], ", "Importer: a package .* of the type Importer"),
        ('input("model")[0].uri', 'input("model")[0].value', "Checksums: Kubeflow passes no value"),
        ('nodes["Trainer"].outputs["model"], files',
         'nodes["LastBlessedModel"].outputs["model_blessing"], files', r"own_nodes.py:\d+"),
        ("path: trips.csv", 'path: "{SPAN}.csv"', None),
    ],
)  # fmt: skip
def test_what_kubeflow_cannot_run_is_refused(compile_, old, new, says):
    if says is None:
        says, edit = "Checksums: examples are the spans of a window", {
            old: new, '{"model": standard_artifacts.Model}': '{"examples": standard_artifacts.Examples}',
            'model=nodes["Trainer"].outputs["model"], files': 'examples=nodes["Window"].outputs["examples"], files',
            'input("model")': 'input("examples")',
        }  # fmt: skip
    else:
        edit = {old: new}
    with pytest.raises(UserError, match=says):
        compile_(edit=edit)
