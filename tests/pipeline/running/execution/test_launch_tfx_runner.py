"""What a launch writes to the metadata, by nodes that hold a secret."""

import pytest
from tfx.dsl.component.experimental.annotations import OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types.standard_artifacts import Examples

from fullpass.pipeline.record.events import Status
from fullpass.pipeline.running.execution.metadata_store import LockedMetadata
from tests.pipeline.toys import Double, launched_here, pipeline_of, rows, write_rows

pytestmark = pytest.mark.integration
SECRET = "pL4nted97Secret"


@component
def Fetch(address: Parameter[str], data: OutputArtifact[Examples]):
    assert SECRET in address  # the node gets it as it is
    data.set_string_custom_property("from", address)
    write_rows(data.uri, [1, 2])


def test_nodes_get_a_secret_and_the_metadata_do_not(tmp_path):
    fetch = Fetch(address=f"https://me:{SECRET}@example.org/rows")
    double = Double(source=fetch.outputs["data"])
    launched_here(pipeline_of(tmp_path, [fetch, double]))
    store = tmp_path / "metadata" / "metadata.db"
    assert SECRET.encode() not in store.read_bytes()
    with LockedMetadata(store) as handle:
        uris = {artifact.uri for artifact in handle.store.get_artifacts()}
        addresses = {e.custom_properties["address"].string_value for e in handle.store.get_executions()} - {""}
    assert addresses == {"https://***@example.org/rows"}
    assert sorted(map(rows, uris)) == [[1, 2], [2, 4]]


@pytest.mark.filterwarnings("ignore:Node Double depends on the output of node Fetch:UserWarning")
def test_a_node_that_lacks_its_input_fails_with_its_name(tmp_path):
    fetch = Fetch(address=SECRET)
    double = Double(source=fetch.outputs["data"])
    outcome = launched_here(pipeline_of(tmp_path, [double]))["Double"]
    assert (outcome.status, outcome.error) == (Status.FAILED, 'It needs the input "source", and there is none.')
