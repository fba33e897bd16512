"""A run of which nothing has changed has the records of the run before; what has changed is noticed."""

from pathlib import Path

import pytest

from fullpass.pipeline.record.events import RunResult, Status, new_run_id
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.root import locks
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.running.execution import runner
from fullpass.pipeline.running.execution.metadata_store import record_run
from fullpass.pipeline.running.execution.records import outputs_of_node
from fullpass.pipeline.running.execution.unchanged_run import find_unchanged, repeat, write_state
from tests.pipeline.registry.retention import nodes

pytestmark = pytest.mark.integration
RUN_FIRST = True
FACTS = RunFacts(config={"hash": "c0ffee", "yaml": "name: toy\n"}, code={"fullpass": "1"})


class Place:
    def __init__(self, folder: Path):
        self.root, self.target = folder / "runs", folder / "serving"

    def run(self) -> RunResult:
        run_id = new_run_id()
        with locks.run_lock(self.root):
            pipeline = nodes.pipeline(self.root, self.target, 1)
            record_run(RootLayout(self.root).metadata, pipeline.pipeline_info.pipeline_name, run_id, FACTS)
            result = runner.run(pipeline, log_dir=self.root / "logs" / run_id, run_id=run_id)
            write_state(self.root, "these inputs", result)
        return result

    def repeat(self, before: RunResult) -> RunResult:
        unchanged = find_unchanged(self.root, "these inputs")
        assert unchanged is not None and unchanged.run_id == before.run_id
        result = repeat(unchanged, self.root, before.pipeline_name, new_run_id(), self.told.append, 0.5)
        write_state(self.root, "these inputs", result)
        return result


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Place:
    place = Place(tmp_path_factory.mktemp("unchanged"))
    place.told = []
    place.first = place.run()
    assert place.first.ok
    return place


def test_a_repeated_run_has_the_outputs_of_the_run_before_and_writes_no_metadata(place):
    by_tfx = place.run()
    written = RootLayout(place.root).metadata.read_bytes()
    repeated, again = place.repeat(by_tfx), place.repeat(by_tfx)
    assert RootLayout(place.root).metadata.read_bytes() == written
    assert repeated.ok and len({by_tfx.run_id, repeated.run_id, again.run_id}) == 3
    assert [(n.id, n.outputs) for n in again.nodes] == [(n.id, n.outputs) for n in by_tfx.nodes]
    assert {n.status for n in again.nodes} == {Status.CACHED}
    assert place.told[-1].result == again
    for node in by_tfx.nodes:
        assert outputs_of_node(again, node.id) == outputs_of_node(by_tfx, node.id)
    after = place.run()
    assert after.ok and after.node("Ingest").status is after.node("Trainer").status is Status.CACHED
    assert outputs_of_node(after, "Trainer") == outputs_of_node(by_tfx, "Trainer")


def test_other_inputs_metadata_and_artifacts_are_noticed(place):
    place.run()
    assert find_unchanged(place.root, "other inputs") is None
    (rows,) = place.root.glob("Ingest/examples/*[0-9]/Split-train/rows")
    content = rows.read_bytes()
    rows.write_bytes(content[::-1])
    assert find_unchanged(place.root, "these inputs") is None
    rows.write_bytes(content)
    assert find_unchanged(place.root, "these inputs") is not None
    record_run(RootLayout(place.root).metadata, place.first.pipeline_name, new_run_id(), FACTS)
    assert find_unchanged(place.root, "these inputs") is None, "something was recorded since"
    RootLayout(place.root).last_full_run.write_text("{")
    assert find_unchanged(place.root, "these inputs") is None
