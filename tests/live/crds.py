"""`make check-workers CRD=FILE`: validates the Job of a node's workers against an operator's strict schema of Jobs.

CRD=FILE is the CRD of JobSet, or of TrainingRuntime of Kubeflow Trainer, from a release or from a cluster (`kubectl get
crd jobsets.jobset.x-k8s.io -o yaml`). Both embed the whole specification of a batch/v1 Job and reject any other field,
while the model classes of a Kubernetes client drop unknown fields.
"""

import copy
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from fullpass.kubeflow.config import EnvironmentConfig
from fullpass.kubeflow.runtime.worker_launcher import manifests
from tests.kubeflow.runtime.test_worker_launcher import ENVIRONMENT, NODE
from tests.live.servers import needed

PATHS = {
    "JobSet": ("replicatedJobs",),
    "TrainingRuntime": ("template", "spec", "replicatedJobs"),
    "ClusterTrainingRuntime": ("template", "spec", "replicatedJobs"),
}
"""Kind -> the path of the list of Jobs in its specification."""


@pytest.fixture(scope="module")
def jobs() -> dict[str, dict[str, Any]]:
    """API version of the operator -> schema of its list of Jobs."""
    found = yaml.safe_load(needed("CRD", "Give the CRD of JobSet or of TrainingRuntime.").read_text())["spec"]
    kind = found["names"]["kind"]
    if kind not in PATHS:
        pytest.exit(f"CRD is of kind {kind}. Accepted: {', '.join(PATHS)}.", returncode=2)
    schemas = {}
    for version in found["versions"]:
        schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for name in PATHS[kind]:
            schema = schema["properties"][name]
        schemas[version["name"]] = strict(schema)
    print(f"\n{kind} {', '.join(schemas)} of {found['group']}")
    return schemas


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a structural schema of Kubernetes as a JSON Schema that rejects unknown fields."""
    made = copy.copy(schema)
    if "properties" in made:
        made["properties"] = {name: strict(part) for name, part in made["properties"].items()}
        if not made.get("x-kubernetes-preserve-unknown-fields"):
            made["additionalProperties"] = False
    elif isinstance(made.get("additionalProperties"), dict):
        made["additionalProperties"] = strict(made["additionalProperties"])
    if "items" in made:
        made["items"] = strict(made["items"])
    return made


def errors(schema: dict[str, Any], job: dict[str, Any]) -> list[str]:
    template = {"metadata": {"labels": job["metadata"]["labels"]}, "spec": job["spec"]}
    listed = [{"name": "worker", "replicas": 1, "template": template}]
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(listed)]


def test_a_job_with_all_that_a_node_may_have_passes(jobs):
    _, job = manifests(
        "taxi-trainer-1", NODE, ["--plan", "{}"], pull_secrets=["login"], pull_policy="Always", service_account="runner"
    )
    assert {version: errors(schema, job) for version, schema in jobs.items()} == dict.fromkeys(jobs, [])


def test_a_job_with_the_least_that_a_node_may_have_passes(jobs):
    nodes = {"Trainer": {"workers": {"count": 2}}}
    node = EnvironmentConfig.model_validate({**ENVIRONMENT, "nodes": nodes}).node("Trainer")
    _, job = manifests("taxi-trainer-1", node, [])
    assert {version: errors(schema, job) for version, schema in jobs.items()} == dict.fromkeys(jobs, [])


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("completionsMode",), "Indexed", "completionsMode"),
        (("completions",), "3", "completions"),
        (("template", "spec", "subDomain"), "x", "subDomain"),
        (("template", "spec", "containers", 0, "ports", 0, "port"), 1, "port"),
        (("template", "spec", "containers", 0, "resources", "request"), {}, "request"),
        (("template", "spec", "securityContext", "runAsNonRoot"), "yes", "runAsNonRoot"),
    ],
)
def test_a_wrong_field_does_not_pass(jobs, path, value, named):
    _, job = manifests("taxi-trainer-1", NODE, [])
    place = job["spec"]
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    for schema in jobs.values():
        assert [error for error in errors(schema, job) if named in error]
