"""The facts about its run that the Trainer receives in a container, outside the fields of the backend's cache key."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from fullpass.components.library_versions import line
from fullpass.kubeflow.compile.package_builder import package_facts
from fullpass.kubeflow.protocol import FACTS_VARIABLE, unpack
from fullpass.kubeflow.runtime.entrypoint import COMMIT_VARIABLE, provide_run_facts
from fullpass.kubeflow.runtime.executor_input import ArtifactCopy, ExecutorInput
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.user_code import code_digest
from fullpass.pipeline.record.provenance import config_hash
from fullpass.trainer.export.run_provenance import RUN_FACTS_VARIABLE, read_run_facts

YAML = """\
# Costs 3 $$ a {{ride}}, $(MORE) at night. {{$}} ünïcode
name: trips
data: {source: {format: csv, path: trips.csv}}
label: {name: tip, task: regression}
features:
  fare: {type: custom, function: "my_told_functions:scaled", columns: {fare: number}}
"""


def executor_input(*uris: str) -> ExecutorInput:
    outputs = {uri.rpartition("/")[2]: ArtifactCopy(uri, Path("/unused"), {}, "") for uri in uris}
    return ExecutorInput({}, {}, outputs, Path("/unused/answer"))


@pytest.fixture
def loaded(tmp_path):
    (tmp_path / "pipeline.yaml").write_text(YAML)
    return load(tmp_path / "pipeline.yaml")


def test_neither_kubernetes_nor_argo_changes_what_the_package_says(loaded):
    text = package_facts(loaded)
    assert not re.search(r"\$|\{\{", text)
    facts = unpack(text)
    assert facts["config"] == {"hash": config_hash(loaded.config), "yaml": YAML}
    assert text == package_facts(loaded)


def test_a_node_is_told_its_run_and_the_code_that_is_in_its_image(loaded, tmp_path, monkeypatch):
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "my_told_functions.py").write_text("def scaled(inputs): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path / "image"))
    monkeypatch.setenv(RUN_FACTS_VARIABLE, "")
    given = {FACTS_VARIABLE: package_facts(loaded), COMMIT_VARIABLE: "4f2a"}
    provide_run_facts(given, executor_input("gs://bucket/root/trips/run-7/trainer/salt/model"), tmp_path / "pod")
    facts = read_run_facts()
    assert facts["run"] == "run-7" and facts["config"]["yaml"] == YAML
    assert facts["code"]["commit"] == "4f2a" and facts["code"]["fullpass"] == version("fullpass")
    assert facts["code"]["line"] == line()
    assert facts["code"]["user"] == code_digest(["my_told_functions:scaled"])
    (tmp_path / "image" / "my_told_functions.py").write_text("def scaled(inputs): return inputs\n")
    assert facts["code"]["user"] != code_digest(["my_told_functions:scaled"])


def test_a_node_that_is_told_nothing_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.delenv(RUN_FACTS_VARIABLE, raising=False)
    provide_run_facts({}, executor_input("gs://bucket/root/trips/run-7/trainer/salt/model"), tmp_path)
    assert read_run_facts() == {} and list(tmp_path.iterdir()) == []
