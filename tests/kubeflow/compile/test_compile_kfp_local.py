"""kfp's own local runner as a second reader of the package: its order, inputs, placeholders, importers and sub-DAGs.

The runner starts containers with Docker, which is not available here. A fake Docker engine receives the commands
instead. It parses the launcher's message of each command, and writes the outputs in place of the node.
"""

import os
import sys
import types
from pathlib import Path

import pytest

from fullpass.kubeflow.compile.package import to_yaml
from fullpass.kubeflow.protocol import unpack
from fullpass.kubeflow.runtime.entrypoint import _CASTS
from fullpass.kubeflow.runtime.executor_input import name_values, parse_message, write_output
from tests.kubeflow.conftest import as_text, toy, toy_package

pytestmark = pytest.mark.integration


class Engine:
    """The part of Docker's client that kfp calls.

    ran: module, arguments and parameters of each container, in order.
    """

    def __init__(self) -> None:
        self.ran: list[tuple[str, dict[str, str], dict]] = []
        self.images = types.SimpleNamespace(list=list, pull=lambda *_, **__: None)
        self.containers = types.SimpleNamespace(run=self._run)

    def close(self) -> None:
        pass

    def info(self) -> dict:
        """Asked by kfp 2.17: the engine has no options of security, such as SELinux."""
        return {}

    def _run(self, *, image: str, command: list[str], **_: object):
        assert image == "registry.example/taxi:1.4.2" and not [part for part in command if "{{" in part]
        pairs = [
            part.removeprefix("--").partition("=") for part in command if part.startswith(("--input=", "--output="))
        ]
        inputs, outputs = (
            name_values([rest for kind, _, rest in pairs if kind == wanted]) for wanted in ("input", "output")
        )
        message = command[command.index("--executor-input") + 1]
        task = parse_message(message, inputs, outputs)
        packed = unpack(command[command.index("--constants") + 1]) if "--constants" in command else {}
        assert set(task.outputs) == set(outputs) and set(task.inputs) == set(inputs)
        self.ran.append((command[command.index("-m") + 1], inputs, task.parameters | packed))
        for copy in task.outputs.values():
            copy.path.mkdir(parents=True, exist_ok=True)
            (copy.path / "file").write_text("x")
        values = {"model_uri": str(copy.path)} if (copy := task.outputs.get("model")) else {}
        if "nothing" in task.outputs:
            values = {"model_uri": "/an/earlier/model", "request": "{}", "made_from": "digest", "known": "{}"}
        write_output(task.output_file, {name: (copy, {"made": 1}) for name, copy in task.outputs.items()}, values)
        return types.SimpleNamespace(logs=lambda stream: [], wait=lambda: {"StatusCode": 0})


@pytest.fixture
def engine(monkeypatch):
    engine = Engine()
    docker = types.ModuleType("docker")
    docker.from_env, docker.DockerClient = lambda: engine, Engine
    monkeypatch.setitem(sys.modules, "docker", docker)
    return engine


def test_kfp_runs_the_taxi_package_to_its_end(engine, taxi_package, tmp_path):
    from kfp import components, local

    local.init(runner=local.DockerRunner(), pipeline_root=str(tmp_path), raise_on_error=True)
    components.load_component_from_text(to_yaml(taxi_package))(data_path="gs://rows/*.csv")
    assert len(engine.ran) == len(taxi_package.tasks) - 2, "all but the DAG of nodes and the importer are containers"
    assert {module for module, _, _ in engine.ran} == {
        "fullpass.kubeflow.runtime.entrypoint",
        "fullpass.kubeflow.runtime.lookup",
    }
    by_inputs = {frozenset(inputs): inputs for _, inputs, _ in engine.ran}
    evaluator = by_inputs[frozenset({"examples", "model", "model_run", "baseline_model"})]
    assert evaluator["baseline_model"] == "/an/earlier/model", "through the look-up, the sub-DAG and the importer"
    assert evaluator["model"].endswith("/trainer/model")
    assert evaluator["examples"].endswith("/ingest-and-schema/Ingest_examples")
    [(rest, parameters)] = [(inputs, given) for _, inputs, given in engine.ran if "Pusher_keep" in given]
    assert {name: Path(path).parent.name for name, path in rest.items()} == {
        "Ingest_examples": "ingest-and-schema",
        "StatisticsGen_statistics": "statistics-gen-to-span-comparison",
        "SchemaComparison_comparison": "statistics-gen-to-span-comparison",
        "SpanComparison_comparison": "statistics-gen-to-span-comparison",
        "Transform_transform_graph": "transform",
        "Transform_transformed_examples": "transform",
        "Trainer_model": "trainer",
        "Trainer_model_run": "trainer",
        "Evaluator_evaluation": "evaluator",
        "Evaluator_blessing": "evaluator",
    }, "Parity and ServingCheck are in the same task"
    assert [given["data_path"] for _, _, given in engine.ran if "data_path" in given] == ["gs://rows/*.csv"]
    assert _CASTS["int"](parameters["Pusher_keep"]) == 3, "as the executor takes it"
    assert parameters["Pusher_target"] == "/models/taxi"


@pytest.mark.filterwarnings("ignore:You may be attemping:RuntimeWarning")  # it is refused anyway
def test_its_subprocess_runner_takes_no_container_at_all(tmp_path):
    """The reason for the fake Docker engine: the subprocess runner rejects even the smallest container."""
    from kfp import components, local

    local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path), raise_on_error=True)
    pipeline = components.load_component_from_text(as_text(toy_package(toy("make", "", outputs=("out",)))))
    with pytest.raises(RuntimeError, match="only supports running Lightweight Python Components"):
        pipeline()
    assert not [file for _, _, files in os.walk(tmp_path) for file in files]
