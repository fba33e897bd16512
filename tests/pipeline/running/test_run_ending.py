"""A run that has ended keeps its outcome, whatever happens while it is told about."""

import os
import sqlite3
import sys
from pathlib import Path
from typing import IO

import pytest

from fullpass.pipeline.printing import console
from fullpass.pipeline.record.events import NodeResult, RunResult, Status
from fullpass.pipeline.record.facts import RunFacts, read_facts
from tests import REPOSITORY, warm_process
from tests.loopback import receiver
from tests.pipeline.running.failing_run import LIMIT_SECONDS, failing_yaml, write_trips

YAML = failing_yaml("[{url_env: RECEIVER, retries: 0}]")


def opened(screen: str, file: Path) -> IO[str]:
    if screen != "reader that left":
        return open(file if screen == "file" else "/dev/full", "w", encoding="utf-8")
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "w", encoding="utf-8")


def outcomes(root: Path) -> list[tuple[str, int]]:
    with sqlite3.connect(root / "history.sqlite") as history:
        return history.execute("SELECT outcome, exit_code FROM runs").fetchall()


@pytest.mark.integration
@pytest.mark.parametrize("screen", ["file", "full disk", "reader that left"])
def test_neither_the_name_of_a_folder_nor_a_screen_that_is_gone_ends_a_run(tmp_path, screen):
    folder = tmp_path / "[/b]x"
    folder.mkdir(parents=True)
    write_trips(folder)
    (folder / "pipeline.yaml").write_text(f"root: {tmp_path}/runs\npush: {{to: {tmp_path}/serving}}\n{YAML}")
    # A folder cannot be written as a file: the copy of the summary fails too.
    command = [sys.executable, "-m", "fullpass", "run", str(folder / "pipeline.yaml"), "--summary", str(tmp_path)]
    with receiver() as (address, got), opened(screen, tmp_path / "out") as out, (tmp_path / "err").open("w") as err:
        environment = os.environ | {"RECEIVER": address}
        with warm_process.Process(command, cwd=REPOSITORY, env=environment, stdout=out, stderr=err) as run:
            assert run.wait(LIMIT_SECONDS) == 1
    told = (tmp_path / "err").read_text()
    assert [(one["event"], one["exit_code"]) for one in got] == [("failure", 1)]
    assert f"{tmp_path}/runs/daily/logs/" in got[0]["logs"]
    assert outcomes(tmp_path / "runs" / "daily") == [("failure", 1)]
    assert f"{tmp_path} could not be written: IsADirectoryError" in told and "Traceback" not in told
    if screen == "file":
        shown = (tmp_path / "out").read_text()
        assert f"Starting ... (logs: {tmp_path}/runs/daily/logs/" in shown and f"{folder}/trips.csv" in shown


@pytest.mark.integration
@pytest.mark.parametrize(("evaluator", "code", "unread"), [(Status.OK, 1, True), (Status.LEFT_OUT, 0, False)])
def test_a_run_whose_metadata_are_gone_is_told_as_failed_only_if_there_was_a_verdict(
    tmp_path, capsys, evaluator, code, unread
):
    from fullpass.pipeline.authoring.loading.load import load
    from fullpass.pipeline.running import run

    (tmp_path / "pipeline.yaml").write_text(YAML)
    loaded = load(tmp_path / "pipeline.yaml")
    nodes = (NodeResult(id="Trainer", status=Status.OK), NodeResult(id="Evaluator", status=evaluator))
    (tmp_path / "metadata.sqlite").write_bytes(b"no database" * 1000)
    result = RunResult(
        run_id="r", pipeline_name="daily", metadata_path=tmp_path / "metadata.sqlite", nodes=nodes, seconds=1.0
    )
    (tmp_path / "logs" / "r").mkdir(parents=True)
    ended = run._EndedRun(RunFacts(run_id="r"), result, tmp_path / "logs" / "r" / "start.log", inputs="")
    facts = run._summarize_and_print(loaded, tmp_path, ended, console())
    assert (facts.exit_code, facts.unread) == (code, unread)
    assert read_facts(tmp_path / "logs" / "r" / "run.json", "") == facts
    assert "some of its outputs cannot be read" in capsys.readouterr().err
    assert "Traceback" in (tmp_path / "logs" / "r" / "start.log").read_text()
