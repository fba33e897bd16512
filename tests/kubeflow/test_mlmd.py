"""The last blessed model from Kubeflow's own metadata: containers of the package query ML Metadata over gRPC."""

import json
import socket
from pathlib import Path

import pytest

from fullpass.base.errors import UserError
from fullpass.components.push.push import push, rollback, rolled_back
from fullpass.kubeflow.compile.package import Package
from fullpass.kubeflow.environment import load_environment
from fullpass.kubeflow.runtime import metadata_lookup
from fullpass.pipeline.authoring.loading.problems import ConfigError
from tests.kubeflow.backend.metadata_service import metadata_service
from tests.kubeflow.backend.run import Backend
from tests.kubeflow.conftest import ENVIRONMENT, as_text, toy, toy_package

pytestmark = pytest.mark.integration
ASKING = ENVIRONMENT.replace("registry: /models/registry\n", "registry: /models/registry\nblessed_models: mlmd\n")
BLESS = (
    """
os.makedirs(paths['model'], exist_ok=True); open(paths['model'] + '/weights', 'w').write(given['data'])
os.makedirs(paths['blessing'], exist_ok=True)
said = {'blessed': int(given['good']), 'current_model': m['outputs']['artifacts']['model']['artifacts'][0]['uri']}
artifacts['blessing'] = {'artifacts': [{'metadata': said}]}
open('baseline', 'w').write(m['inputs']['artifacts']['baseline']['artifacts'][0]['uri'])
""".strip()
    .replace("\n", "; ")
    .replace("given[", "m['inputs']['parameterValues'][")
)


@pytest.fixture(scope="module")
def asking(compile_taxi) -> Package:
    return compile_taxi(ASKING).package


@pytest.fixture
def package(asking) -> str:
    """Returns the look-up and the importer of the taxi package, with a toy task that trains, evaluates and blesses.

    Parameters of a run: `data`, from which the model is made, and `good`, whether the model is blessed.
    """
    root = {"data": {"parameterType": "STRING"}, "good": {"parameterType": "BOOLEAN", "defaultValue": True}}
    given = {"data": ("STRING", "$data"), "good": ("BOOLEAN", "$good")}
    bless = toy(
        "evaluator", BLESS, parameters=given, artifacts={"baseline": ("last-blessed-model", "model")},
        outputs=("model", "blessing"), cache=True,
    )  # fmt: skip
    toys = toy_package(bless, root=root)
    for name, title in (("model", "tfx.Model"), ("blessing", "tfx.ModelBlessing")):
        definitions = toys["components"]["comp-evaluator"]["outputDefinitions"]["artifacts"]
        definitions[name] = {"artifactType": {"schemaTitle": title, "schemaVersion": "0.0.1"}}
    inner = ("import-last-blessed-model", "end-last-blessed-model")
    names = ("no-last-blessed-model", "find-last-blessed-model", "last-blessed-model", *inner)
    taxi = json.loads(json.dumps(asking.pipeline))
    for name in names:
        toys["components"][f"comp-{name}"] = taxi["components"][f"comp-{name}"]
        if f"exec-{name}" in asking.executors:
            toys["deploymentSpec"]["executors"][f"exec-{name}"] = asking.executors[f"exec-{name}"]
    for name in names[:3]:
        toys["root"]["dag"]["tasks"][name] = taxi["root"]["dag"]["tasks"][name]
    find = toys["root"]["dag"]["tasks"]["find-last-blessed-model"]
    find["inputs"]["parameters"]["request"] = {"componentInputParameter": "data"}
    find["dependentTasks"] = ["no-last-blessed-model"]
    toys["pipelineInfo"]["name"] = "taxi"
    return as_text(toys)


def baseline(result) -> str:
    """Returns the id of the run whose model was the baseline of a run, or "nothing"."""
    if result.states["evaluator"] == "CACHED":
        return "cached"
    address = (result.folders["evaluator"] / "baseline").read_text()
    return "nothing" if address.endswith("/nothing") else address.split("/")[-4]


@pytest.mark.parametrize("release", ["2.4", "2.17"])
def test_a_run_follows_the_newest_model_that_was_blessed_and_made_from_something_else(package, tmp_path, release):
    backend = Backend(tmp_path, release=release)
    with metadata_service(backend.metadata) as backend.variables:
        first = backend.run(package, {"data": "day 1"})
        second = backend.run(package, {"data": "day 2"})
        again = backend.run(package, {"data": "day 2"})
        third = backend.run(package, {"data": "day 3", "good": False})
        fourth = backend.run(package, {"data": "day 4"})
        back = backend.run(package, {"data": "day 1"})
    assert baseline(first) == "nothing" and "no model was blessed before" in first.log("find-last-blessed-model")
    assert baseline(second) == first.id
    assert baseline(again) == "cached", "it follows what the run followed that it repeats"
    assert baseline(third) == second.id
    assert baseline(fourth) == second.id, "a model that was refused is followed by none"
    assert baseline(back) == fourth.id


def test_a_model_that_was_rolled_back_is_passed_over(package, tmp_path):
    backend = Backend(tmp_path / "kfp")
    (tmp_path / "export").mkdir()
    with metadata_service(backend.metadata) as backend.variables:
        package = package.replace("constant: /models/taxi", f"constant: {tmp_path}/taxi")
        runs = [backend.run(package, {"data": f"day {day}"}) for day in (1, 2)]
        for blessing in backend.metadata.artifacts("tfx.ModelBlessing"):
            push(tmp_path / "export", tmp_path / "taxi", keep=5, origin=blessing["metadata"]["current_model"])
        rollback(tmp_path / "taxi")
        assert baseline(backend.run(package, {"data": "day 3", "good": False})) == runs[0].id
        rollback(tmp_path / "taxi", to=rolled_back(tmp_path / "taxi")[0])
        assert baseline(backend.run(package, {"data": "day 4"})) == runs[1].id


def test_models_of_other_pipelines_and_namespaces_are_not_taken(package, tmp_path):
    backend, stranger = Backend(tmp_path / "a"), Backend(tmp_path / "b", namespace="team-b")
    stranger.metadata, stranger.store = backend.metadata, backend.store
    with metadata_service(backend.metadata) as variables:
        backend.variables = stranger.variables = variables
        backend.run(package, {"data": "day 1"})
        assert baseline(stranger.run(package, {"data": "day 2"})) == "nothing"
        other = package.replace("name: taxi", "name: flights")
        assert baseline(backend.run(other, {"data": "day 3"})) == "nothing"


def test_where_no_metadata_are_to_be_had_the_cause_is_told(tmp_path):
    unset = "METADATA_GRPC_SERVICE_HOST.*not set.*blessed_models: registry"
    with pytest.raises(UserError, match=unset), metadata_lookup.metadata({}):
        pass
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        pytest.raises(UserError, match=f"127.0.0.1:{port} failed with UnavailableError.*blessed_models: registry"),
        metadata_lookup.metadata({metadata_lookup.HOST: "127.0.0.1", metadata_lookup.PORT: str(port)}) as store,
    ):
        metadata_lookup.last_blessed(store, "minio://a", "task", "a", str)
    backend = Backend(tmp_path)
    with (
        metadata_service(backend.metadata) as variables,
        pytest.raises(UserError, match="contain no run with minio://gone"),
        metadata_lookup.metadata(variables) as store,
    ):
        metadata_lookup.last_blessed(store, "minio://gone", "task", "a", str)


def test_the_package_records_no_blessing_and_the_look_up_needs_no_registry(asking, taxi_package):
    tasks, usual = (p.pipeline["root"]["dag"]["tasks"] for p in (asking, taxi_package))
    assert set(usual) - set(tasks) == {"record-last-blessed-model"}
    assert set(tasks["find-last-blessed-model"]["inputs"]["parameters"]) == {"made_from", "push_to", "request", "task"}


def test_a_registry_in_the_metadata_is_refused_with_what_to_use_instead(tmp_path):
    file: Path = tmp_path / "env.yaml"
    file.write_text(ENVIRONMENT.replace("registry: /models/registry", "registry: mlmd"))
    with pytest.raises(ConfigError, match=r"registry.*metadata do not store.*blessed_models: mlmd"):
        load_environment(file)
