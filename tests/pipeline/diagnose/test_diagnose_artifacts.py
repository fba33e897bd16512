"""What of the newest run is measured: the artifacts that its training reads, as the metadata has them."""

from pathlib import Path

import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.writing.manifest import COUNTS, RowCounts
from fullpass.pipeline.authoring.loading.load import load

pytestmark = pytest.mark.integration

PLACE_INPUT = {18: "input: {compute_at: input}\nevaluation:"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def recorded(root: Path):
    """Returns `recorded(run, node, key, artifacts)`: writes that a node of a run ended well with these outputs.

    Artifacts are given as name -> rows of the train split; each gets a file of that split.
    """
    from ml_metadata.proto import metadata_store_pb2 as proto
    from tfx.orchestration import metadata
    from tfx.orchestration.portable.mlmd import context_lib, execution_lib
    from tfx.types import standard_artifacts

    root.mkdir()
    config = metadata.sqlite_metadata_connection_config(str(root / "metadata.sqlite"))

    def artifact(name: str, rows: int):
        found = standard_artifacts.Examples()
        found.uri = str(root / name)
        found.set_string_custom_property(COUNTS, RowCounts(written={"train": rows}).to_json())
        (root / name / "Split-train").mkdir(parents=True, exist_ok=True)
        (root / name / "Split-train" / "data-00000-of-00001").write_bytes(b"records")
        return found

    def record(run: str, node: str, key: str, artifacts: dict[str, int]) -> None:
        register = context_lib.register_context_if_not_exists
        with metadata.Metadata(config) as handle:
            pipeline = register(handle, "pipeline", "taxi")
            contexts = [
                pipeline,
                register(handle, "pipeline_run", run, parent_contexts=[pipeline]),
                register(handle, "node", f"taxi.{node}"),
            ]
            execution = execution_lib.prepare_execution(
                handle, proto.ExecutionType(name=node), proto.Execution.COMPLETE
            )
            made = [artifact(name, rows) for name, rows in artifacts.items()]
            execution_lib.put_execution(handle, execution, contexts, output_artifacts={key: made})

    return record


def newest(file: Path, root: Path):
    from fullpass.pipeline.diagnose.diagnose import newest_training

    return newest_training(load(file), root)


def test_before_any_run_there_is_nothing_to_measure(edited, root):
    with pytest.raises(UserError, match=r"no run in .*root has written examples yet.*`fullpass run .* --to Transform`"):
        newest(edited(), root)
    assert not root.exists()


def test_a_run_that_did_not_reach_transform_does_not_count(edited, root, recorded):
    recorded("run-1", "Ingest", "examples", {"raw": 10})
    with pytest.raises(UserError, match="has written examples yet"):
        newest(edited(), root)


def test_the_newest_run_is_taken(edited, root, recorded):
    for run, rows in (("run-1", 10), ("run-2", 20)):
        recorded(run, "Ingest", "examples", {f"raw-{run}": rows})
        recorded(run, "Transform", "transformed_examples", {f"made-{run}": rows})
        recorded(run, "Transform", "transform_graph", {f"graph-{run}": 0})
    found = newest(edited(), root)
    assert found.rows == 20
    assert found.files == (f"{root}/made-run-2/Split-train/data-00000-of-00001",)


def test_a_root_that_cannot_be_written_is_measured_as_well(edited, root, recorded, read_only):
    recorded("run-1", "Ingest", "examples", {"raw": 10})
    recorded("run-1", "Transform", "transformed_examples", {"made": 10})
    recorded("run-1", "Transform", "transform_graph", {"graph": 0})
    before = sorted(root.rglob("*"))
    file = edited()
    read_only()
    assert newest(file, root).rows == 10
    assert sorted(root.rglob("*")) == before
    (root / "metadata.sqlite.lock").write_bytes(b"")
    assert newest(file, root).rows == 10, "a lock that is there is held"


def test_raw_examples_are_those_of_all_spans_of_the_window(edited, root, recorded):
    # The span of today is new, the one of yesterday an earlier run has ingested.
    recorded("run-1", "Ingest", "examples", {"today": 30})
    recorded("run-1", "Window", "examples", {"yesterday": 20, "today": 30})
    recorded("run-1", "Transform", "transform_graph", {"graph": 0})
    found = newest(edited(PLACE_INPUT), root)
    assert found.rows == 50
    assert [Path(file).parents[1].name for file in found.files] == ["today", "yesterday"]


def test_a_yaml_that_now_has_features_written_asks_for_a_run(edited, root, recorded):
    recorded("run-1", "Ingest", "examples", {"raw": 10})
    recorded("run-1", "Transform", "transform_graph", {"graph": 0})
    with pytest.raises(UserError, match="wrote no transformed examples.*`fullpass run .* --to Transform`"):
        newest(edited(), root)


def test_examples_that_someone_removed_are_named(edited, root, recorded):
    recorded("run-1", "Ingest", "examples", {"raw": 10})
    recorded("run-1", "Transform", "transformed_examples", {"made": 10})
    recorded("run-1", "Transform", "transform_graph", {"graph": 0})
    (root / "made/Split-train/data-00000-of-00001").unlink()
    with pytest.raises(UserError, match=r"no files.*root/made/Split-train.*`fullpass run .* --fresh --to Transform`"):
        newest(edited(), root)
