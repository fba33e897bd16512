"""What a user's files may not bring into a package, and faults that the lint of the tests finds in packages."""

import copy

import pytest
from google.protobuf import json_format

from fullpass.base.errors import UserError
from fullpass.kubeflow.compile.package import Package, check_package
from tests.kubeflow.compile.package_lint import lint
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


def test_a_sound_package_passes():
    for release in ("2.4", "2.17"):
        check_package(package(), release)
        assert lint(package(), release) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s: give(s, "{{workflow.name}}"), "parameter 'text' contains '{{', which Argo or Kubernetes would"),
        (lambda s: give(s, "$(HOME)"), r"parameter 'text' contains '\$\(HOME\)'"),
        (lambda s: give(s, "a $$ b"), r"parameter 'text' contains '\$\$'"),
        (lambda s: give(s, "x" * 130_000), "task 'make': the task takes 130,"),
        (
            lambda s: container(s, "use").update(env=[{"name": "YAML", "value": "x" * 130_000}]),
            "task 'use': variable YAML takes 130,005 bytes",
        ),
    ],
)
def test_what_the_backend_would_change_or_reject_is_named(change, expected):
    broken = package()
    change(broken.pipeline)
    with pytest.raises(UserError, match=f"(?s)2.5 would not run this package.*{expected}"):
        check_package(broken, "2.5")


def test_argo_before_3_6_has_every_template_in_a_variable_where_inputs_stand_twice():
    """Every pod accepts an argument of 70,000 bytes, but not a variable that contains it twice."""
    broken = package()
    give(broken.pipeline, "x" * 70_000)
    for release in ("2.14", "2.17"):
        check_package(broken, release)
    with pytest.raises(UserError) as error:
        check_package(broken, "2.5")
    _, of_root, of_task = str(error.value).splitlines()
    assert "DAG root: ARGO_TEMPLATE of its driver takes 14" in of_root and "of which a package may use" in of_root
    assert "task 'make': ARGO_TEMPLATE of its driver takes 14" in of_task


def test_retries_are_refused_before_the_release_that_has_them():
    newer = package()
    task(newer.pipeline, "use")["retryPolicy"] = {"maxRetryCount": 1}
    check_package(newer, "2.5")
    with pytest.raises(UserError, match="'use': 2.4 does not support retries"):
        check_package(newer, "2.4")


def test_all_findings_are_raised_at_once():
    broken = package()
    task(broken.pipeline, "use")["retryPolicy"] = {"maxRetryCount": 1}
    give(broken.pipeline, "$$")
    with pytest.raises(UserError, match=r"(?s)2\.4 would not run this package.*'use': 2\.4.*\$\$"):
        check_package(broken, "2.4")


def importer(spec, address):
    spec["deploymentSpec"]["executors"]["exec-use"] = {"importer": {"artifactUri": address}}


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda s: s["deploymentSpec"]["executors"].update({"exec-use": {"resolver": {}}}), "use: no executor"),
        (lambda s: s["root"]["dag"]["tasks"].update({"use_it": task(s, "use")}), "use_it: Argo's names"),
        (lambda s: s["root"]["dag"]["tasks"].update({"use-driver": task(s, "use")}), "use: its driver's name is taken"),
        (lambda s: task(s, "use")["componentRef"].update(name="comp-x"), "use: no component"),
        (lambda s: task(s, "use").update(dependentTasks=["gone"]), "use: waits for gone"),
        (lambda s: s["components"]["comp-make"]["outputDefinitions"]["artifacts"].clear(),
         "use: make has no output out"),
        (lambda s: task(s, "make")["inputs"]["parameters"].pop("text"), "make: text is declared or given alone"),
        (lambda s: give(s, 3.0), "make: text has another type"),
        (lambda s: s["root"]["inputDefinitions"]["parameters"]["n"].pop("defaultValue"), "n: no default"),
        (lambda s: container(s, "use")["args"].append("{{$.inputs.artifacts['other'].path}}"),
         "exec-use: {{$.inputs.artifacts['other'].path}} is never replaced"),
        (lambda s: importer(s, {"runtimeParameter": "uri"}), "use: an importer's address must be an input of its DAG"),
        (
            lambda s: task(s, "use").update(
                triggerPolicy={"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}, dependentTasks=["make", "use"]
            ),
            "use: an exit task waits for one task",
        ),
    ],
)  # fmt: skip
def test_the_lint_of_compiled_packages_sees_what_the_backend_would_not_run(change, finding):
    broken = copy.deepcopy(package())
    change(broken.pipeline)
    assert finding in lint(broken, "2.5")


def test_the_lint_of_compiled_packages_knows_the_fields_of_each_release():
    unknown = package()
    container(unknown.pipeline, "use")["cmd"] = "x"
    with pytest.raises(json_format.ParseError, match="cmd"):
        lint(unknown, "2.5")
    pod = {"exec-use": {"securityContext": {"runAsNonRoot": True}}, "exec-gone": {"privileged": True}}
    other = Package(package().pipeline, {"platforms": {"kubernetes": {"deploymentSpec": {"executors": pod}}}})
    known = ["exec-gone: no executor", "exec-gone: privileged is unknown"]
    assert lint(other, "2.16") == known
    assert lint(other, "2.15") == ["exec-use: securityContext needs 2.16", *known]
