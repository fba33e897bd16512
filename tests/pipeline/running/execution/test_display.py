"""What a reader of the screen or of a CI log sees."""

import io
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from fullpass.base.progress import Progress
from fullpass.pipeline.record.events import (
    NodeEnded,
    NodeResult,
    NodeRunning,
    NodeStarted,
    RunEnded,
    RunResult,
    RunStarted,
    Status,
)
from fullpass.pipeline.running.execution.display import describe, display, duration_text

LOG = Path("logs/Transform.log")
STARTED = RunStarted(run_id="r1", pipeline_name="taxi", node_ids=("Ingest", "Transform", "Trainer"), base_run_id=None)
INGEST = NodeResult(id="Ingest", status=Status.CACHED, seconds=0.05, log=Path("logs/Ingest.log"))
TRANSFORM = NodeResult(id="Transform", status=Status.OK, seconds=75.0, log=LOG)
BROKEN = NodeResult(
    id="Transform", status=Status.FAILED, seconds=3.21, log=LOG, error="row 3: [bad] date\nuse YYYY-MM-DD"
)
NOT_RUN = NodeResult(id="Trainer", status=Status.NOT_RUN)


def ended(*nodes: NodeResult) -> RunEnded:
    result = RunResult(run_id="r1", pipeline_name="taxi", metadata_path=Path("m.db"), nodes=nodes, seconds=5.0)
    return RunEnded(result=result)


def running(done: int, reported_at: float, total: int | None = 1000, unit: str = "rows", **more) -> NodeRunning:
    progress = Progress(done=done, total=total, unit=unit, reported_at=reported_at, **more)
    return NodeRunning(id="Transform", seconds=reported_at, progress=progress)


FAILED_RUN = [
    STARTED,
    NodeStarted(id="Ingest", log=Path("logs/Ingest.log")),
    NodeEnded(result=INGEST),
    NodeStarted(id="Transform", log=LOG),
    running(100, 1.0),
    NodeEnded(result=BROKEN),
    ended(INGEST, BROKEN, NOT_RUN),
]


def lines_of(events: list) -> str:
    file = io.StringIO()
    with display(Console(file=file, width=80)) as listener:
        for event in events:
            listener(event)
    return file.getvalue()


def test_a_long_node_says_every_half_minute_how_far_it_is():
    events = [running(100 * n, 10.0 * n, total=2000) for n in range(13)]
    assert lines_of([STARTED, NodeStarted(id="Transform", log=LOG), *events]) == (
        "taxi: run r1\nTransform: started\n"
        "Transform: running for 30 s, 300 of 2,000 rows, 2:50 left\n"
        "Transform: running for 1:00, 600 of 2,000 rows, 2:20 left\n"
        "Transform: running for 1:30, 900 of 2,000 rows, 1:50 left\n"
        "Transform: running for 2:00, 1,200 of 2,000 rows, 1:20 left\n"
    )


def test_what_a_node_says_before_it_counts_is_printed_at_once_and_once():
    note = "tries trees and linear in about 10 s of processor, at most 90 s"
    events = [running(0, 1.0 * n, total=None, unit="", note=note) for n in (1, 2, 31)]
    assert lines_of([STARTED, NodeStarted(id="Transform", log=LOG), *events]) == (
        f"taxi: run r1\nTransform: started\nTransform: {note}\nTransform: running for 31 s, {note}\n"
    )


def screen_of(events: list, width: int = 100) -> list[str]:
    """What a terminal shows at the end: the few control sequences that rich uses, played on a list of lines."""
    file = io.StringIO()
    with display(Console(file=file, force_terminal=True, width=width, height=40, color_system=None)) as listener:
        for event in events:
            listener(event)
    screen, row = [""], 0
    for token in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|[^\x1b]+", file.getvalue()):
        if token == "\x1b[1A":
            row -= 1
        elif token == "\x1b[2K":
            screen[row] = ""
        elif not token.startswith("\x1b"):
            for piece in re.findall(r"\r|\n|[^\r\n]+", token):
                if piece == "\n":
                    row += 1
                    screen += [""] * (row + 1 - len(screen))
                elif piece != "\r":
                    screen[row] += piece
    return [line.rstrip() for line in screen]


def row_of(screen: list[str], node_id: str) -> str:
    [row] = [line for line in screen if line.startswith(f"{node_id} ")]
    return " ".join(row.split())


def test_lines_for_ci():
    assert lines_of(FAILED_RUN) == (
        "taxi: run r1\n"
        "Ingest: started\n"
        "Ingest: cached\n"
        "Transform: started\n"
        "Transform: failed after 3.2 s\n"
        "\n"
        "Transform failed: row 3: [bad] date\n"
        "use YYYY-MM-DD\n"
        "Its log: logs/Transform.log\n"
        "\n"
        "Not run: Trainer\n"
    )


def test_lines_are_never_broken():
    path = Path("/a" * 60 + ".log")
    broken = NodeResult(id="Transform", status=Status.FAILED, log=path, error="x " * 60)
    assert f"Its log: {path}\n" in lines_of([STARTED, NodeEnded(result=broken)])


def test_lines_say_which_run_the_first_outputs_are_from():
    event = RunStarted(run_id="r2", pipeline_name="taxi", node_ids=("Trainer",), base_run_id="r1")
    assert lines_of([event]) == "taxi: run r2, with outputs of run r1 before Trainer\n"


def test_lines_of_an_interrupted_run():
    stopped = NodeResult(id="Transform", status=Status.INTERRUPTED, seconds=2.0, log=LOG)
    _, *lines = lines_of([STARTED, NodeEnded(result=stopped), ended(INGEST, stopped, NOT_RUN)]).splitlines()
    assert lines == ["Transform: interrupted after 2.0 s", "Interrupted: Transform", "Not run: Trainer"]


def test_the_table_has_a_line_per_node():
    screen = screen_of([STARTED, NodeEnded(result=INGEST), running(250, 1.0, note="file 1 of 4")])
    assert screen[0] == "taxi: run r1"
    assert row_of(screen, "Ingest") == "Ingest cached 0.1 s"
    assert row_of(screen, "Transform") == "Transform running 1.0 s 250 of 1,000 rows, file 1 of 4"
    assert row_of(screen, "Trainer") == "Trainer waiting"


def test_the_table_foresees_the_end():
    """200 rows in 10 s: the 700 that are left take 35 s."""
    screen = screen_of([STARTED, running(100, 1.0), running(300, 11.0)])
    assert row_of(screen, "Transform").endswith("300 of 1,000 rows, 35 s left")
    screen = screen_of([STARTED, running(100, 1.0), running(300, 11.0, ends_at=31.0)])
    assert row_of(screen, "Transform").endswith("300 of 1,000 rows, 20 s left")


def test_a_new_count_starts_a_new_forecast():
    """The second count has 50 of 100 batches done 2 s after its first report: 2 s are left."""
    events = [STARTED, running(100, 1.0), running(900, 11.0)]
    events += [running(0, 12.0, 100, unit="batches"), running(50, 14.0, 100, unit="batches")]
    assert row_of(screen_of(events), "Transform").endswith("50 of 100 batches, 2.0 s left")


def test_without_a_total_there_is_no_forecast():
    screen = screen_of([STARTED, running(100, 1.0, None), running(300, 11.0, None)])
    assert row_of(screen, "Transform").endswith("11 s 300 rows")


def test_the_table_ends_with_outcomes_then_cause_then_log():
    screen = screen_of(FAILED_RUN)
    assert row_of(screen, "Ingest") == "Ingest cached 0.1 s"
    assert row_of(screen, "Trainer") == "Trainer not run"
    assert [line for line in screen if line][-4:] == [
        "Transform failed: row 3: [bad] date",
        "use YYYY-MM-DD",
        "Its log: logs/Transform.log",
        "Not run: Trainer",
    ]


def test_a_long_cause_does_not_break_the_table():
    long = NodeResult(id="Transform", status=Status.FAILED, seconds=1.0, log=LOG, error="word " * 50)
    screen = screen_of([STARTED, NodeEnded(result=long)], width=60)
    assert len([line for line in screen if line]) == 4
    assert max(map(len, screen)) <= 60


def test_the_terminal_is_given_back_after_an_error():
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, height=40)
    with pytest.raises(ZeroDivisionError), display(console) as listener:
        listener(STARTED)
        raise ZeroDivisionError
    assert file.getvalue().rindex("\x1b[?25h") > file.getvalue().rindex("\x1b[?25l")


def test_showing_starts_no_thread():
    before = threading.active_count()
    with display(Console(file=io.StringIO(), force_terminal=True)) as listener:
        listener(STARTED)
        assert threading.active_count() == before


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.9, "1:00"),
        (119.6, "2:00"),
        (3599.6, "1:00:00"),
        (86400, "24:00:00"),
    ],
)
def test_duration(seconds: float, words: str):
    assert duration_text(seconds) == words


def test_describe_leaves_out_what_is_not_known():
    progress = Progress(done=12345, total=None, unit="rows", reported_at=0.0)
    assert describe(progress, None) == "12,345 rows"


SHOW = """
from pathlib import Path
from fullpass.pipeline.running.execution.display import display
from fullpass.pipeline.record.events import *
with display() as listener:
    listener(RunStarted(run_id="r1", pipeline_name="taxi", node_ids=("Ingest",), base_run_id=None))
    listener(NodeStarted(id="Ingest", log=Path("x")))
    listener(NodeEnded(result=NodeResult(id="Ingest", status=Status.OK, seconds=2.0)))
"""


def test_a_pipe_gets_lines_even_where_colors_are_forced():
    """Jupyter's kernels and CI systems set FORCE_COLOR for the processes that they start."""
    environment = os.environ | {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TTY_COMPATIBLE": "1", "TERM": "xterm"}
    out = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, check=True, env=environment).stdout
    assert out == b"taxi: run r1\nIngest: started\nIngest: ok, 2.0 s\n"


def test_a_terminal_gets_a_table_that_is_redrawn():
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    subprocess.run([sys.executable, "-c", SHOW], stdout=theirs, check=True, env=environment)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "\x1b[2K" in shown
    assert re.search(r"Ingest.*ok.*2\.0 s", shown)
