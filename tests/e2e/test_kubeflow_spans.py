"""Taxi trips that arrive span by span, under the rules of Kubeflow's backend and launcher: only necessary tasks run."""

import json
from pathlib import Path

import pytest

from fullpass.components.evaluation.judge.verdict import read_verdict
from tests.e2e.kubeflow_package import ROWS_OF_SPAN, SPAN_BY_SPAN, compiled, write_span
from tests.kubeflow.backend.launcher import TaskFailed
from tests.kubeflow.backend.run import Backend

pytestmark = [pytest.mark.e2e, pytest.mark.long]

ALWAYS = {"find-inputs", "last-blessed-model", "nodes"}
OF_NODES = {
    "ingest-and-schema", "statistics-gen-to-span-comparison", "transform", "data-gate-and-trainer",
    "evaluator-to-report",
}  # fmt: skip


class Installation:
    """A compiled pipeline with spans, and its backend. release: the KFP release whose rules the next run follows."""

    def __init__(self, folder: Path, pipeline: str = SPAN_BY_SPAN):
        self.folder = folder
        (folder / "pipeline" / "trips").mkdir(parents=True)
        for span in (1, 2):
            self.arrives(span)
        self.package = compiled(folder, pipeline)
        self.backend = Backend(folder / "kfp", release="2.5")

    def arrives(self, span: int) -> None:
        write_span(self.folder / "pipeline" / "trips", span)

    def run(self, release: str = "2.5", **parameters: str):
        backend = Backend(self.folder / "kfp", release=release)
        backend.metadata, backend._cache = self.backend.metadata, self.backend._cache
        self.backend = backend
        return backend.run(self.package, parameters, parallel=2)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Returns the installation and four runs: the first, an unchanged one, one without a new span, one with one."""
    there = Installation(tmp_path_factory.mktemp("spans"))
    first = there.run()
    again = there.run()
    with pytest.raises(TaskFailed) as nothing_new:
        there.run(span="new")
    there.arrives(3)
    third = there.run(release="2.17", span="new")
    return there, first, again, str(nothing_new.value), third


def done(result, state: str) -> set[str]:
    return {task for task, found in result.states.items() if found == state}


def spans_kept(there: Installation) -> list[dict]:
    """Returns the registry's entry of every ingested span."""
    entries = (there.folder / "models/registry/taxi/examples").glob("*.json")
    found = [json.loads(entry.read_text())["metadata"] for entry in entries]
    return [facts | {"counts": json.loads(facts["counts"])} for facts in found]


def test_every_task_of_the_first_run_is_done(runs):
    _, first, _, _, _ = runs
    assert done(first, "COMPLETE") == set(first.states) == {*ALWAYS, *OF_NODES}
    assert first.pods == 15


def test_nothing_is_ingested_analysed_or_trained_again_while_nothing_changes(runs):
    _, _, again, _, _ = runs
    # There is no blessed model to follow, so its placeholder is the same as before.
    assert done(again, "COMPLETE") == ALWAYS and done(again, "CACHED") == OF_NODES
    assert again.pods == 10


def test_a_run_that_must_bring_something_new_ends_where_nothing_is(runs):
    _, _, _, said, _ = runs
    assert said.startswith("task 'find-inputs': exit status 1: inputs: no new span: 2 is the newest")
    assert "Nothing was trained" in said


def test_a_new_span_is_ingested_and_the_other_is_taken_over(runs):
    there, _, _, _, third = runs
    assert done(third, "COMPLETE") == {*ALWAYS, *OF_NODES}
    examples = spans_kept(there)
    assert sorted(facts["span"] for facts in examples) == [1, 2, 3], "each span was ingested once"
    assert all(facts["counts"]["read"] == ROWS_OF_SPAN for facts in examples)
    windows = [artifact["metadata"] for artifact in there.backend.metadata.artifacts("tfx.Examples")]
    assert [(facts["first_span"], facts["newest_span"]) for facts in windows if "spans" in facts] == [
        ("1", "2"),
        ("2", "3"),
    ]


def test_only_the_new_span_is_analysed(runs):
    there, _, _, _, _ = runs
    analyses = [
        json.loads(graph["metadata"]["analysis"]) for graph in there.backend.metadata.artifacts("tfx.TransformGraph")
    ]
    assert [(analysis["hit"], set(analysis["missed"])) for analysis in analyses] == [([], {"1", "2"}), (["2"], {"3"})]


def test_the_window_holds_the_rows_of_both_of_its_spans(runs):
    there, _, _, _, third = runs
    statistics = there.backend.store.keys()
    [shard] = [key for key in statistics if f"/{third.id}/" in key and "/StatisticsGen_statistics/Split-train" in key]
    import tensorflow_data_validation as tfdv

    read = tfdv.load_stats_binary(str(there.backend.store.path(shard)))
    of_window = [facts["counts"]["written"]["train"] for facts in spans_kept(there) if facts["span"] in (2, 3)]
    assert len(of_window) == 2 and read.datasets[0].num_examples == sum(of_window) > 1.2 * ROWS_OF_SPAN


def test_the_newest_span_of_each_run_is_judged_for_itself(runs):
    there, first, _, _, third = runs
    labelled = {facts["span"]: facts["counts"]["written"]["eval"] for facts in spans_kept(there)}
    for run, newest in ((first, 2), (third, 3)):
        keys = [
            key
            for key in there.backend.store.keys()
            if f"/{run.id}/evaluator-" in key and "/Evaluator_evaluation/" in key
        ]
        [recorded] = [key for key in keys if key.endswith("/verdict.json")]
        verdict = read_verdict(str(there.backend.store.path(recorded).parent))
        assert verdict.newest_examples == labelled[newest] < verdict.examples
        [auc] = verdict.newest
        assert auc.required == ">= 0.02" and auc.value != verdict.metrics[0].value


def test_a_stopped_span_stops_the_next_runs_until_one_releases_it(tmp_path):
    there = Installation(tmp_path, SPAN_BY_SPAN + "gates: {drift: {policy: stop, features: {payment_type: ignore}}}\n")
    there.run()
    there.arrives(3)
    trips = tmp_path / "pipeline" / "trips" / "3.csv"
    header, *rows = trips.read_text().splitlines(keepends=True)
    column = header.split(",").index("fare")
    cells = [row.split(",") for row in rows]
    trips.write_text(header + "".join(",".join((*c[:column], f"9{c[column]}", *c[column + 1 :])) for c in cells))
    with pytest.raises(TaskFailed) as stopped:
        there.run(span="new")
    assert "exit status 1: DataGate: 3 has changed. Nothing was trained" in str(stopped.value)
    pages = [page["uri"] for page in there.backend.metadata.artifacts("system.HTML") if "SpanComparison" in page["uri"]]
    assert len(pages) == 2, "the page of the stopped run is published too, since the gate has another task"
    there.arrives(4)
    with pytest.raises(TaskFailed) as held:
        there.run(span="new")
    assert "3 has changed. Nothing was trained" in str(held.value) and "not released: fare: drifted" in str(held.value)
    assert done(there.run(span="new", gate="warn"), "COMPLETE") >= {"data-gate-and-trainer", "evaluator-to-report"}
    [decision] = (tmp_path / "models/registry/taxi/span_verdicts").glob("3.*.json")
    release = json.loads(decision.read_text())["release"]
    assert (release["by"], release["how"]) == ("a parameter", "gate=warn") and release["run"]
