"""The events of a run, read by the process that started it."""

import io
from pathlib import Path

import pytest

from fullpass.base.progress import Progress
from fullpass.pipeline import printing
from fullpass.pipeline.record.events import (
    NodeEnded,
    NodeResult,
    NodeRunning,
    NodeStarted,
    RunEnded,
    RunResult,
    RunStarted,
    Status,
    from_line,
    to_line,
)
from fullpass.pipeline.running.execution.display import display

FAILED = NodeResult(id="Ingest", status=Status.FAILED, seconds=1.5, log=Path("a b.log"), error="row 3:\n\x1b[31m é")
EVENTS = [
    RunStarted(run_id="r1", pipeline_name="taxi", node_ids=("Ingest", "Trainer"), base_run_id=None),
    NodeStarted(id="Ingest", log=Path("a b.log")),
    NodeRunning(id="Ingest", seconds=0.25, progress=None),
    NodeRunning(id="Ingest", seconds=0.5, progress=Progress(done=3, total=9, unit="rows", reported_at=12.0)),
    NodeEnded(result=FAILED),
    RunEnded(
        result=RunResult(run_id="r1", pipeline_name="taxi", metadata_path=Path("m.db"), nodes=(FAILED,), seconds=2.0)
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_one_line_and_comes_back(event):
    line = to_line(event)
    assert line.isascii() and line.count("\n") == 1 and line.endswith("\n")
    assert from_line(line) == event


def test_text_for_people_is_no_event():
    file = io.StringIO()
    printing.console(file).print(f"\x1e{to_line(EVENTS[0])}")
    assert set(map(from_line, io.StringIO(file.getvalue()))) == {None}


def test_a_run_that_another_process_shows_writes_its_events():
    file = io.StringIO()
    with display(printing.console(file), events=True) as listener:
        for event in EVENTS:
            listener(event)
    assert list(map(from_line, io.StringIO(file.getvalue()))) == EVENTS
