"""Each rule of the backend, broken in a small package that is otherwise valid."""

import pytest

from fullpass.base.errors import UserError
from fullpass.kubeflow.compile.lint import check_package, lint
from fullpass.kubeflow.compile.package import Package
from tests.kubeflow.conftest import toy, toy_package


def package() -> Package:
    root = {"n": {"parameterType": "NUMBER_INTEGER", "defaultValue": 1}}
    make = toy("make", "", parameters={"n": ("NUMBER_INTEGER", "$n"), "text": ("STRING", "x")}, outputs=("out",))
    use = toy("use", "", artifacts={"it": ("make", "out")}, values={"size": "NUMBER_INTEGER"})
    return Package(toy_package(make, use, root=root), {})


def task(spec, name):
    return spec["root"]["dag"]["tasks"][name]


def container(spec, name):
    return spec["deploymentSpec"]["executors"][f"exec-{name}"]["container"]


def give(spec, value):
    task(spec, "make")["inputs"]["parameters"]["text"]["runtimeValue"]["constant"] = value


def rename(spec, old, new):
    tasks = spec["root"]["dag"]["tasks"]
    tasks[new] = tasks.pop(old)


def importer(spec, address):
    spec["deploymentSpec"]["executors"]["exec-use"] = {
        "importer": {"artifactUri": address, "typeSchema": {"schemaTitle": "system.Artifact"}}
    }


EXIT = {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
BREACHES = {
    "an unknown field": (lambda s: s.update(displayName="x"), "displayName"),
    "an unknown field of a container": (
        lambda s: s["deploymentSpec"]["executors"]["exec-use"]["container"].update(cmd="x"),
        "cmd",
    ),
    "an older schema": (lambda s: s.update(schemaVersion="2.0.0"), "schemaVersion must be 2.1.0"),
    "a name with capitals": (lambda s: s["pipelineInfo"].update(name="Toy"), "'Toy'"),
    "a root on a disk": (lambda s: s.update(defaultPipelineRoot="/data"), "defaultPipelineRoot"),
    "a resolver": (
        lambda s: s["deploymentSpec"]["executors"].update({"exec-use": {"resolver": {}}}),
        "exec-use: a resolver executor runs on Vertex only. Use a look-up container",
    ),
    "a task with _": (lambda s: rename(s, "use", "use_it"), "task 'use_it': Argo accepts"),
    "a task called as a driver": (lambda s: rename(s, "use", "make-driver"), "uses this name for its driver of 'make'"),
    "an unknown component": (lambda s: task(s, "use")["componentRef"].update(name="comp-x"), "no component 'comp-x'"),
    "an unknown executor": (lambda s: s["components"]["comp-use"].update(executorLabel="x"), "no executor 'x'"),
    "an unknown task to wait for": (lambda s: task(s, "use").update(dependentTasks=["gone"]), "waits for 'gone'"),
    "an unknown output": (
        lambda s: s["components"]["comp-make"]["outputDefinitions"]["artifacts"].clear(),
        "task 'use': 'make' has no output 'out'",
    ),
    "a parameter without value": (
        lambda s: task(s, "make")["inputs"]["parameters"].pop("text"),
        "task 'make': parameter 'text' is declared and given no value",
    ),
    "a parameter of another type": (lambda s: give(s, 3.0), "parameter 'text' is declared STRING and given 3.0"),
    "a run parameter without default": (
        lambda s: s["root"]["inputDefinitions"]["parameters"]["n"].pop("defaultValue"),
        "parameter 'n' of the pipeline has no default value",
    ),
    "a placeholder nobody fills in": (
        lambda s: container(s, "use")["args"].append("{{$.inputs.artifacts['it'].value}}"),
        "exec-use: {{$.inputs.artifacts['it'].value}} is never replaced",
    ),
    "a placeholder of another task": (
        lambda s: container(s, "use")["args"].append("{{$.inputs.artifacts['other'].path}}"),
        "the component declares no 'other'",
    ),
    "a text that Argo changes": (lambda s: give(s, "{{workflow.name}}"), "parameter 'text' contains '{{'"),
    "a text that Kubernetes changes": (lambda s: give(s, "$(HOME)"), "parameter 'text' contains '$(HOME)'"),
    "too long a text": (lambda s: give(s, "x" * 130_000), "task 'make': the task takes 130,"),
    "too long a variable": (
        lambda s: container(s, "use").update(env=[{"name": "YAML", "value": "x" * 130_000}]),
        "task 'use': variable YAML takes 130,005 bytes",
    ),
    "an importer of a file": (lambda s: importer(s, {"constant": "/data/x"}), "an importer accepts only gs://"),
    "an importer of a task's output": (lambda s: importer(s, {"runtimeParameter": "uri"}), "input of the DAG"),
    "an exit task of several": (
        lambda s: task(s, "use").update(triggerPolicy=EXIT, dependentTasks=["make", "use"]),
        "task 'use': an exit task waits for one task",
    ),
    "iteration over artifacts": (
        lambda s: task(s, "use").update(artifactIterator={"itemInput": "it", "items": {"inputArtifact": "it"}}),
        "no release iterates over artifacts",
    ),
}  # fmt: skip


def test_the_package_itself_is_fine():
    assert lint(package(), "2.4") == lint(package(), "2.17") == []


@pytest.mark.parametrize("breach", BREACHES)
def test_every_breach_is_named(breach):
    change, expected = BREACHES[breach]
    broken = package()
    change(broken.pipeline)
    assert any(expected in finding for finding in lint(broken, "2.5")), lint(broken, "2.5")


def test_argo_before_3_6_has_every_template_in_a_variable_where_inputs_stand_twice():
    """Every pod accepts an argument of 70,000 bytes, but not a variable that contains it twice."""
    broken = package()
    give(broken.pipeline, "x" * 70_000)
    assert lint(broken, "2.14") == lint(broken, "2.17") == []
    of_root, of_task = lint(broken, "2.5")
    assert "DAG root: ARGO_TEMPLATE of its driver takes 14" in of_root and "of which a package may use" in of_root
    assert "task 'make': ARGO_TEMPLATE of its driver takes 14" in of_task


def test_a_task_of_the_same_name_in_two_dags():
    broken = package()
    broken.pipeline["components"]["comp-dag"] = {
        "dag": {"tasks": {"make": {"taskInfo": {"name": "make"}, "componentRef": {"name": "comp-use"}}}}
    }
    assert any("is in two DAGs" in finding for finding in lint(broken, "2.5"))


def test_retries_are_refused_before_the_release_that_has_them():
    newer = package()
    task(newer.pipeline, "use")["retryPolicy"] = {"maxRetryCount": 1}
    assert lint(newer, "2.5") == [] and lint(newer, "2.4") != []


def test_how_a_run_ended_is_refused_before_the_release_that_knows():
    newer = package()
    task(newer.pipeline, "make")["inputs"]["parameters"]["text"] = {"taskFinalStatus": {"producerTask": "use"}}
    assert lint(newer, "2.14") == [] and "'make': text is the final status of the run" in str(lint(newer, "2.5"))


def test_the_time_of_the_schedule_is_refused_before_the_release_that_tells_it():
    timed = package()
    give(timed.pipeline, "{{$.pipeline_job_schedule_time_utc}}")
    assert lint(timed, "2.17") == [] and "which Argo or Kubernetes would replace" in str(lint(timed, "2.16"))


def test_an_unknown_kubernetes_setting_is_named():
    other = Package(
        package().pipeline,
        {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-use": {"privileged": True}}}}}},
    )
    assert any("exec-use: privileged is not supported here" in finding for finding in lint(other, "2.5"))


def test_a_security_context_is_refused_before_the_release_that_has_it():
    pod = {"exec-use": {"securityContext": {"runAsNonRoot": True}}}
    other = Package(package().pipeline, {"platforms": {"kubernetes": {"deploymentSpec": {"executors": pod}}}})
    assert lint(other, "2.16") == [] and lint(other, "2.15") == ["exec-use: securityContext needs 2.16 or later."]


def test_require_raises_all_findings_at_once():
    broken = package()
    rename(broken.pipeline, "use", "use_it")
    give(broken.pipeline, "$$")
    with pytest.raises(UserError, match=r"(?s)2\.5 would not run this package.*use_it.*\$\$"):
        check_package(broken, "2.5")
