"""Runs of a part of a pipeline: from a node, to a node, with the outputs of earlier runs."""

from pathlib import Path

import pytest

from fullpass.base.errors import UsageError, UserError
from fullpass.pipeline.running.execution import records
from tests.pipeline import toys
from tests.pipeline.running.execution.toy_runs import diamond, failing_once, last_blessed, rows_of, statuses

pytestmark = pytest.mark.integration
RUN_FIRST = True


def test_from_a_node_takes_the_outputs_before_it_from_the_last_run(run):
    first = run(*diamond())
    result = run(*diamond(), from_node="Square", fresh=True)
    assert statuses(result) == {"Count": "reused", "Double": "reused", "Square": "ok", "Add": "ok"}
    assert result.base_run_id == first.run_id
    assert records.outputs_of_node(result, "Count") == records.outputs_of_node(first, "Count")
    assert rows_of(result, "Add") == [0, 3, 8, 15, 24]


def test_to_a_node_leaves_out_what_is_beyond_it(run):
    result = run(*diamond(), to_node="Double")
    assert result.ok
    assert statuses(result) == {"Count": "ok", "Double": "ok", "Square": "left out", "Add": "left out"}


def test_from_and_to_the_same_node_run_that_node(run):
    run(*diamond())
    result = run(*diamond(), from_node="Double", to_node="Double", fresh=True)
    assert statuses(result) == {"Count": "reused", "Double": "ok", "Square": "left out", "Add": "left out"}


def test_runs_of_one_node_each_add_up_to_a_whole_run(run):
    run(*diamond(), to_node="Count")
    for node in ("Square", "Double"):
        run(*diamond(), from_node=node, to_node=node)
    result = run(*diamond(), from_node="Add", to_node="Add")
    assert statuses(result) == {"Count": "reused", "Double": "reused", "Square": "reused", "Add": "ok"}
    assert rows_of(result, "Add") == [0, 3, 8, 15, 24]


def test_a_run_of_a_first_node_adds_to_the_newest_run(run):
    """A node that needs nothing takes what the run before has, for the nodes after it that need both."""

    def nodes() -> list:
        left, right = toys.Count(to=3).with_id("Left"), toys.Count(to=3).with_id("Right")
        return [left, right, toys.Add(left=left.outputs["data"], right=right.outputs["data"])]

    run(*nodes(), to_node="Left")
    run(*nodes(), from_node="Right", to_node="Right")
    assert statuses(run(*nodes(), from_node="Add")) == {"Left": "reused", "Right": "reused", "Add": "ok"}


def test_from_a_node_passes_over_a_run_that_lacks_the_outputs(run, tmp_path: Path):
    (tmp_path / "flag").touch()
    good = run(*failing_once(tmp_path))
    (tmp_path / "flag").unlink()
    assert not run(*failing_once(tmp_path), fresh=True).ok
    result = run(*failing_once(tmp_path), from_node="Double")
    assert result.base_run_id == good.run_id
    assert statuses(result)["Double"] == "cached"


def test_from_a_node_looks_up_the_last_blessed_model_anew(run):
    def nodes() -> list:
        count = toys.Count(to=2)
        blessed = last_blessed()
        return [count, blessed, toys.Compare(source=count.outputs["data"], baseline=blessed.outputs["model"])]

    run(*nodes())
    result = run(*nodes(), from_node="Compare", fresh=True)
    assert statuses(result) == {"Count": "reused", "LastBlessed": "ok", "Compare": "ok"}


def test_from_a_node_without_an_earlier_run_is_refused(run):
    with pytest.raises(UserError, match="no earlier run of toy has the outputs of Count, Double, Square"):
        run(*diamond(), from_node="Add")


@pytest.mark.parametrize("option", ["from", "to"])
def test_an_unknown_node_is_refused_with_the_known_ones(run, option: str):
    with pytest.raises(UsageError) as refused:
        run(*diamond(), **{f"{option}_node": "Sqare"})
    assert str(refused.value) == (
        f'--{option}: there is no node "Sqare". Did you mean "Square"?\nThe nodes are: Count, Double, Square, Add.'
    )


def test_from_a_node_that_does_not_lead_to_the_last_is_refused(run):
    with pytest.raises(UserError, match='--from "Add" is not upstream of --to "Count"'):
        run(*diamond(), from_node="Add", to_node="Count")
