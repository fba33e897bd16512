"""What a container imports, told by fresh interpreters."""

import json
import subprocess
import sys

import pytest

from fullpass.kubeflow.runtime.executor_imports import WITHOUT_TENSORFLOW, hidden

pytestmark = pytest.mark.integration
PROGRAM = """
import json, sys
from fullpass.kubeflow.runtime.entrypoint import _import_executor
from fullpass.kubeflow.runtime.executor_imports import libraries_for
from fullpass.pipeline.process_environment import set_environment
set_environment()
with libraries_for(sys.argv[1], direct=json.loads(sys.argv[2])):
    found = _import_executor(sys.argv[1], "/nowhere")
import fullpass.kubeflow.runtime.artifact_messages
print(json.dumps([found.__name__, sorted(name for name, module in sys.modules.items() if module and "." not in name)]))
"""


def imported(executor: str, *, direct: bool = False) -> set[str]:
    """Returns the packages that a container has imported when its executor begins."""
    command = [sys.executable, "-c", PROGRAM, executor, json.dumps(direct)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    name, packages = json.loads(done.stdout.splitlines()[-1])
    assert name == executor.rpartition(".")[2]
    return set(packages)


@pytest.mark.parametrize("executor", sorted(WITHOUT_TENSORFLOW))
def test_small_nodes_import_neither_tensorflow_nor_beam(executor):
    assert not imported(executor) & {"tensorflow", "apache_beam", "keras", "tensorflow_transform"}


def test_where_artifacts_are_opened_in_the_store_tensorflow_is_there():
    """TFX opens gs:// by TensorFlow's file systems, which it registers while it is imported."""
    executor = "fullpass.components.declared_schema.DeclaredSchema_Executor"
    assert {"tensorflow", "apache_beam"} <= imported(executor, direct=True)


def test_others_import_both_without_what_notebooks_and_wrappers_need():
    packages = imported("fullpass.components.ingest.component.IngestExecutor")
    assert {"tensorflow", "keras", "apache_beam"} <= packages
    assert not packages & {"sklearn", "IPython"}


def test_small_nodes_are_nodes_of_a_package(taxi_package):
    plans = [
        json.loads(args[args.index("--plan") + 1])
        for executor in taxi_package.executors.values()
        if "--plan" in (args := executor.get("container", {}).get("args", []))
    ]
    assert {plan["executor"] for plan in plans} >= WITHOUT_TENSORFLOW


def test_what_is_hidden_can_be_imported_later_and_what_is_there_stays():
    sys.modules.pop("this", None)
    with hidden("this", "json"):
        with pytest.raises(ModuleNotFoundError):
            import this  # noqa: F401
        import json as there

        assert there is json
    assert "this" not in sys.modules and sys.modules["json"] is json
