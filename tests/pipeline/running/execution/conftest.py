"""A run of small nodes."""

from pathlib import Path

import pytest

from fullpass.pipeline.record.events import RunResult, new_run_id
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.root import locks
from fullpass.pipeline.running.execution import metadata_store, runner
from fullpass.pipeline.running.request import RunRequest
from tests.pipeline import toys


@pytest.fixture
def run(tmp_path: Path):
    """Runs nodes under `tmp_path`; the logs of each run have a directory of their own."""

    def run_nodes(
        *nodes, cache: bool = True, wait: bool = False, listener=lambda event: None, meanwhile=(), **options
    ) -> RunResult:
        run_id = new_run_id()
        with locks.run_lock(tmp_path / "artifacts", wait=wait):
            pipeline = toys.pipeline_of(tmp_path, nodes, cache=cache)
            # As `fullpass run` does, which comes before TFX.
            store, facts = tmp_path / "metadata" / "metadata.db", RunFacts(config={"hash": "", "yaml": ""})
            store.parent.mkdir(exist_ok=True)
            metadata_store.record_run(store, "toy", run_id, facts)
            where = {"log_dir": tmp_path / "logs" / run_id, "run_id": run_id}
            return runner.run(pipeline, RunRequest(**options), **where, listener=listener, meanwhile=meanwhile)

    return run_nodes
