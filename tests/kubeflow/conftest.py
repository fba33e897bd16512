"""Toy packages of small Python programs, and the taxi package, which is compiled once."""

import copy
import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from fullpass.kubeflow.protocol import unpack
from tests import REPOSITORY

ENVIRONMENT = """\
image: registry.example/taxi:1.4.2
kubeflow: "2.5"
registry: /models/registry
push_to: /models/taxi
defaults:
  memory: {request: 2Gi, limit: 8Gi}
  cpu: {request: 500m, limit: "4"}
  volumes: [{claim: models, mount: /models}]
  secrets: [{name: store, env: {AWS_ACCESS_KEY_ID: accesskey, AWS_SECRET_ACCESS_KEY: secretkey}}]
  env: {AWS_ENDPOINT_URL: "http://minio-service.kubeflow:9000"}
nodes:
  Trainer:
    accelerator: {resource: nvidia.com/gpu, count: 1}
    node_selector: {cloud.google.com/gke-accelerator: nvidia-tesla-t4}
    tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
    retries: {count: 2, backoff: 1m}
    timeout: 2h
  Evaluator: {cache: false, memory: {limit: 16Gi}}
image_pull_secrets: [registry-login]
image_pull_policy: IfNotPresent
"""
# Reads the launcher's message and writes the executor output file. {body} may use m (the message), paths, values and
# artifacts.
PROGRAM = """
import json, os, sys, time
m = json.loads(sys.argv[1])
paths = dict(p.split("=", 1) for p in sys.argv[2:])
values, artifacts = {{}}, {{}}
{body}
os.makedirs(os.path.dirname(m["outputs"]["outputFile"]), exist_ok=True)
json.dump({{"parameterValues": values, "artifacts": artifacts}}, open(m["outputs"]["outputFile"], "w"))
"""


def toy(
    name: str, body: str, *, parameters=None, artifacts=None, outputs=(), values=None, after=(), cache=False, **more
) -> dict[str, Any]:
    """Returns one task of a toy package. values: output parameters. more: further fields of the task, unchanged."""
    given = {"parameters": parameters or {}, "artifacts": artifacts or {}, "values": values or {}, "outputs": outputs}
    return {"name": name, "body": body, **given, "after": after, "cache": cache, "more": more}


def toy_package(*tasks: dict, root: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns a specification of toy tasks. A parameter is a constant, ("task", "key"), or "$name" of the root."""
    spec: dict[str, Any] = {
        "pipelineInfo": {"name": "toy"},
        "schemaVersion": "2.1.0",
        "sdkVersion": "test",
        "components": {},
        "deploymentSpec": {"executors": {}},
        "root": {"dag": {"tasks": {}}},
    }
    if root:
        spec["root"]["inputDefinitions"] = {"parameters": root}
    kind = {"artifactType": {"schemaTitle": "system.Artifact", "schemaVersion": "0.0.1"}}
    for task in tasks:
        name = task["name"]
        declared, given = {}, {}
        for key, (typed, value) in task["parameters"].items():
            declared[key] = {"parameterType": typed}
            if isinstance(value, tuple):
                given[key] = {"taskOutputParameter": {"producerTask": value[0], "outputParameterKey": value[1]}}
            elif isinstance(value, str) and value.startswith("$"):
                given[key] = {"componentInputParameter": value[1:]}
            else:
                given[key] = {"runtimeValue": {"constant": value}}
        sources = {
            key: {"taskOutputArtifact": {"producerTask": t, "outputArtifactKey": k}}
            for key, (t, k) in task["artifacts"].items()
        }
        args = [f"{key}={{{{$.inputs.artifacts['{key}'].path}}}}" for key in sources]
        args += [f"{key}={{{{$.outputs.artifacts['{key}'].path}}}}" for key in task["outputs"]]
        spec["components"][f"comp-{name}"] = {
            "executorLabel": f"exec-{name}",
            "inputDefinitions": {"parameters": declared, "artifacts": {key: kind for key in sources}},
            "outputDefinitions": {
                "artifacts": {key: kind for key in task["outputs"]},
                "parameters": {key: {"parameterType": typed} for key, typed in task["values"].items()},
            },
        }
        spec["deploymentSpec"]["executors"][f"exec-{name}"] = {
            "container": {
                "image": "registry.example/toy:1",
                "command": ["python", "-c", PROGRAM.format(body=task["body"])],
                "args": ["{{$}}", *args],
            }
        }
        producers = {v[0] for _, v in task["parameters"].values() if isinstance(v, tuple)}
        waits = sorted(producers | {t for t, _ in task["artifacts"].values()} | set(task["after"]))
        spec["root"]["dag"]["tasks"][name] = {
            "taskInfo": {"name": name},
            "componentRef": {"name": f"comp-{name}"},
            "inputs": {"parameters": given, "artifacts": sources},
            "cachingOptions": {"enableCache": task["cache"]},
            **({"dependentTasks": waits} if waits else {}),
            **task["more"],
        }
    return copy.deepcopy(spec)


def as_text(spec: dict[str, Any]) -> str:
    return yaml.safe_dump(json.loads(json.dumps(spec)))


def constants(package: Any, task: str) -> dict[str, Any]:
    """Returns all constants of a task: its parameters, and the packed constants of its container."""
    given = package.tasks[task]["inputs"].get("parameters", {})
    found = {name: source["runtimeValue"]["constant"] for name, source in given.items() if "runtimeValue" in source}
    args = package.executors[f"exec-{task}"]["container"]["args"]
    return found | (unpack(args[args.index("--constants") + 1]) if "--constants" in args else {})


def plan_of(package: Any, node: str) -> tuple[str, dict[str, Any]]:
    """Returns the task of a node, and the node's plan in it."""
    args = {
        label: executor["container"]["args"] for label, executor in package.executors.items() if "container" in executor
    }
    plans = {label: json.loads(found[found.index("--plan") + 1]) for label, found in args.items() if "--plan" in found}
    [found] = [(label, one) for label, plan in plans.items() for one in plan.get("nodes", ()) if one["node"] == node]
    return found[0].removeprefix("exec-"), found[1]


@pytest.fixture(scope="session")
def compile_taxi(tmp_path_factory) -> Callable[..., Any]:
    """Returns `compile(environment text, edit={old: new})`, which compiles the taxi example for an environment."""

    def compile_(environment: str = ENVIRONMENT, edit: dict[str, str] | None = None):
        from fullpass.kubeflow.compile.compile import compile_package
        from fullpass.kubeflow.environment import load_environment
        from fullpass.pipeline.authoring.loading.load import load

        folder = tmp_path_factory.mktemp("compile")
        shutil.copy(REPOSITORY / "examples" / "taxi" / "pipeline.yaml", folder / "pipeline.yaml")
        text = (folder / "pipeline.yaml").read_text()
        for old, new in (edit or {}).items():
            assert old in text
            text = text.replace(old, new)
        (folder / "pipeline.yaml").write_text(text)
        (folder / "env.yaml").write_text(environment)
        return compile_package(load(folder / "pipeline.yaml"), load_environment(folder / "env.yaml"))

    return compile_


@pytest.fixture(scope="session")
def taxi_package(compile_taxi):
    return compile_taxi().package
