"""`fullpass schedule list` and `trigger`: the rows of the next runs, and a request for one."""

import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.root.check import claim_root
from fullpass.pipeline.scheduling.local_scheduler import request_run, schedule_lines


@pytest.mark.parametrize(("key", "kind"), [("new_span", "new span"), ("drift", "drift")])
def test_a_schedule_that_waits_for_spans_has_a_row_for_the_next_one(tmp_path, key, kind):
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "name: daily\n"
        "data: {source: {format: csv, path: 'trips-{SPAN}.csv'}, split: {method: hash, ratios: {train: 8, eval: 2}}}\n"
        "label: {name: tip, task: regression}\n"
        "features: {fare: number}\n"
        f"schedule: {{{key}: true, poll: 5m}}\n"
    )
    first, *rows = schedule_lines(load(file)).splitlines()
    assert first == f"daily: on {'every ' if key == 'new_span' else ''}{kind}"
    assert [row.split("  ")[-1].strip() for row in rows if " next " in row and kind in row] == ["checked every 5m"]


def test_a_request_before_the_first_run_makes_the_root_of_the_pipeline(edited, folder):
    loaded = load(edited({18: "schedule: {new_span: true}\nevaluation:"}))
    assert "No scheduler is running" in request_run(loaded)
    with pytest.raises(UserError, match="root of the pipeline taxi"):
        claim_root(folder / "runs" / "taxi", "other")
    claim_root(folder / "runs" / "taxi", "taxi")
