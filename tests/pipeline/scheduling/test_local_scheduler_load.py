"""What stops a scheduler at its start, and what it waits for instead."""

import pytest

from fullpass.pipeline.authoring.loading.problems import ConfigError
from fullpass.pipeline.scheduling.local_scheduler import load_to_schedule
from tests.pipeline.conftest import TRIPS


@pytest.fixture
def pipeline(edited, folder):
    """A schedule of days, of which the newest is still arriving."""
    (folder / "2024-01-01.csv").write_text(TRIPS)
    (folder / "2024-01-02.csv").write_text("fare;ti")
    return edited({5: '    path: "{YYYY}-{MM}-{DD}.csv"', 18: "schedule: {new_span: true}\nevaluation:"})


def test_a_newest_span_that_still_arrives_is_told_and_stops_no_scheduler(pipeline, capsys):
    assert load_to_schedule(pipeline).span is None
    warned = capsys.readouterr().err
    assert "warning" in warned and "2024-01-02.csv has one column only" in warned


def test_what_is_wrong_with_whole_spans_too_stops_a_scheduler(pipeline, folder):
    pipeline.write_text(pipeline.read_text().replace("company", "compny"))
    with pytest.raises(ConfigError, match="compny"):
        load_to_schedule(pipeline)
    (folder / "2024-01-02.csv").unlink()
    with pytest.raises(ConfigError, match="compny"):
        load_to_schedule(pipeline)


@pytest.mark.parametrize("begun", ["fare;ti", "fare,ti", ""])
def test_an_only_span_that_still_arrives_is_told_and_stops_no_scheduler(pipeline, folder, capsys, begun):
    (folder / "2024-01-01.csv").unlink()
    (folder / "2024-01-02.csv").write_text(begun)
    assert load_to_schedule(pipeline).span is None
    warned = capsys.readouterr().err
    assert ("2024-01-02.csv is still arriving" in warned) == bool(begun), "a span may have no rows"
    assert "Columns:" not in warned and "one column only" not in warned
    pipeline.write_text(pipeline.read_text().replace("auc: {min", "auk: {min"))
    with pytest.raises(ConfigError, match="auk"):
        load_to_schedule(pipeline)
