"""A schedule that trains when the data has moved: the gate looks beside the scheduler, and is asked once a span."""

import threading

import pytest

from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.scheduling.due import SpanDrift
from fullpass.pipeline.scheduling.source_state import BackgroundMeasurement, WatchedSource


def test_a_span_is_measured_once_and_nobody_waits_for_it():
    may_end, asked = threading.Event(), []

    def measure(number):
        asked.append(number)
        assert may_end.wait(60)
        return SpanDrift(True, f"span {number}")

    measured = BackgroundMeasurement(measure)
    assert measured.look(5) == measured.look(5) == measured.look(6) == {} and asked == [5]
    may_end.set()
    measured._thread.join(60)
    assert measured.look(5) == {5: SpanDrift(True, "span 5")} and asked == [5]
    measured.look(6)
    measured._thread.join(60)
    assert set(measured.look(6)) == {5, 6} and asked == [5, 6]


@pytest.mark.long
@pytest.mark.integration
def test_the_gate_tells_a_span_that_moved_from_one_that_did_not(edited, folder):
    lines = {
        5: '    path: "d/{SPAN}.csv"',
        9: "    method: hash\n    column: id",
        18: "gates: {drift: retrain}\nschedule: {drift: true, wait_for: d/done}\nevaluation:",
    }
    (folder / "d").mkdir()
    (folder / "d" / "done").touch()
    for span, fare in ((1, 5), (2, 5), (3, 50)):
        rows = [f"{i},{fare + i % 7},{i % 3},{'ab'[i % 2]},2024-01-0{1 + i % 7}" for i in range(300)]
        text = "\n".join(["id,fare,tips,company,started", *rows]) + "\n"
        (folder / "d" / f"{span}.csv").write_text(text)
        if span > 1:
            source = WatchedSource(load(edited(lines)), folder / "runs" / "taxi")
            seen = source.look()
            assert seen.drift_by_span == {} and span in seen.steady
            source._drift._thread.join(120)
            found = source.look().drift_by_span[span]
            assert found.moved == (span == 3), found
            assert ("fare" in found.why) == (span == 3), found
