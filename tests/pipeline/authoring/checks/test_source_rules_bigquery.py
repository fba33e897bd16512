"""A pipeline on BigQuery is refused where it could not log in, and compiles where it can."""

import pytest

from fullpass.pipeline.authoring.checks.source_rules import check_credentials
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.running.build import build

YAML = """\
name: trips
data:
  source: {format: bigquery, query: SELECT * FROM d.trips}
  split: {method: hash, column: id}
label: {name: y, task: binary}
features: {n: number}
beam: {runner: %s}
"""


@pytest.fixture
def no_login(tmp_path, monkeypatch):
    for name in ("BIGQUERY_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))


def loaded_of(tmp_path, runner):
    (tmp_path / "p.yaml").write_text(YAML % runner)
    return load(tmp_path / "p.yaml")


def test_this_machine_has_no_credentials(tmp_path, no_login):
    (finding,) = check_credentials(loaded_of(tmp_path, "direct"))
    assert finding.keys == ("data", "source") and "gcloud auth application-default login" in finding.message
    assert not list(check_credentials(loaded_of(tmp_path, "dataflow")))


@pytest.mark.integration
def test_the_pipeline_is_built_without_asking_bigquery(tmp_path, no_login):
    built = build(loaded_of(tmp_path, "dataflow"), root=tmp_path / "runs")
    (ingest,) = [node for node in built.components if node.id == "Ingest"]
    assert '"format": "bigquery"' in str(ingest.exec_properties["request"])
