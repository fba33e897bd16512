"""`fullpass schedule list`: the rows of the next runs."""

import pytest

from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.scheduling.local_scheduler import schedule_lines


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
