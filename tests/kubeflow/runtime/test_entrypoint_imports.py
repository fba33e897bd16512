"""The imports of a container, measured in fresh interpreters."""

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Iterable

import pytest
from packaging.utils import canonicalize_name

from fullpass.base.errors import UserError
from fullpass.kubeflow.image_requirements import variant_entries
from fullpass.kubeflow.protocol import IN_SMALL_IMAGE, WITHOUT_TENSORFLOW
from fullpass.kubeflow.runtime.entrypoint import libraries_for
from tests.kubeflow.test_image_requirements import LOCK, PROJECT, names

pytestmark = pytest.mark.integration
PROGRAM = """
import json, sys
sys.modules |= dict.fromkeys(sys.argv[3:])
from fullpass.kubeflow.runtime.entrypoint import import_executor, libraries_for
from fullpass.pipeline.startup import set_environment
set_environment()
found = []
for executor in sys.argv[1].split():
    with libraries_for([executor], direct=json.loads(sys.argv[2])):
        found.append(import_executor(executor, "/nowhere").__name__)
import fullpass.kubeflow.runtime.artifact_messages
print(json.dumps([found, sorted(name for name, module in sys.modules.items() if module and "." not in name)]))
"""


def imported(*executors: str, direct: bool = False, absent: Iterable[str] = ()) -> set[str]:
    """Returns the packages imported when containers' executors begin; `absent` packages are not installed."""
    command = [sys.executable, "-c", PROGRAM, " ".join(executors), json.dumps(direct), *absent]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found, packages = json.loads(done.stdout.splitlines()[-1])
    assert found == [executor.rpartition(".")[2] for executor in executors]
    return set(packages)


@pytest.mark.parametrize("small_image", [True, False])
def test_small_nodes_import_neither_tensorflow_nor_beam(small_image):
    executors = sorted(name for name in WITHOUT_TENSORFLOW if (name in IN_SMALL_IMAGE) == small_image)
    found = imported(*executors, absent=not_in_the_small_image() if small_image else ())
    assert executors and not found & {"tensorflow", "apache_beam", "keras", "tensorflow_transform"}


def not_in_the_small_image() -> list[str]:
    """Returns the modules that no package of the small image contains."""
    kept = set(names(variant_entries("small", LOCK, PROJECT, []))) | {"fullpass"}
    brought = importlib.metadata.packages_distributions().items()
    return [module for module, packages in brought if not {canonicalize_name(name) for name in packages} & kept]


def test_look_ups_run_in_the_small_image():
    hiding = f"import sys; sys.modules |= dict.fromkeys({not_in_the_small_image()})"
    program = f"{hiding}\nfrom fullpass.kubeflow.runtime import lookup"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_a_node_that_needs_tensorflow_says_that_its_image_has_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(UserError, match="needs TensorFlow, which its image lacks"):
        with libraries_for(["fullpass.components.ingest.component.IngestExecutor"], direct=False):
            pass


@pytest.mark.long
def test_where_artifacts_are_opened_in_the_store_tensorflow_is_there():
    """TFX opens gs:// with TensorFlow's file systems, which it registers during its import."""
    executor = "fullpass.components.declared_schema.DeclaredSchema_Executor"
    assert {"tensorflow", "apache_beam"} <= imported(executor, direct=True)


@pytest.mark.long
def test_others_import_both_without_keras():
    packages = imported("fullpass.components.ingest.component.IngestExecutor")
    assert {"tensorflow", "apache_beam"} <= packages
    assert not packages & {"keras", "sklearn"}


def test_small_nodes_are_nodes_of_a_package(taxi_package):
    plans = [
        json.loads(args[args.index("--plan") + 1])
        for executor in taxi_package.executors.values()
        if "--plan" in (args := executor.get("container", {}).get("args", []))
    ]
    assert {node["executor"] for plan in plans for node in plan["nodes"]} >= WITHOUT_TENSORFLOW
