"""A fact of a run is declared once, and all that tell of runs have it."""

import json
import sqlite3
from dataclasses import dataclass

from fullpass.base import state_file
from fullpass.pipeline.api.run import Run
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.record.facts import RunFacts, fact, read_facts, write_facts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.record.notifications import payload_of
from tests import REPOSITORY


@dataclass(frozen=True, kw_only=True)
class MoreFacts(RunFacts):
    """The facts of a run, and a new one."""

    bytes_read: int = fact(0, "Bytes of the files of the window.", "bytes", told=True, kept=True)


def test_a_new_fact_costs_its_line_and_its_value(tmp_path):
    """It is in the file, the API, the notification and the history, none of which names it."""
    facts = MoreFacts(run_id="1").plus({"bytes_read": 7})
    write_facts(facts, tmp_path / "run.json")
    assert MoreFacts.of(json.loads((tmp_path / "run.json").read_text())) == facts
    assert (
        Run.of(load(REPOSITORY / "examples" / "taxi" / "pipeline.yaml"), facts, tmp_path).facts["bytes_read"]
        == payload_of(facts).fields["bytes_read"]
        == 7
    )
    RunHistory(tmp_path).record(facts)
    with sqlite3.connect(tmp_path / "history.sqlite") as history:
        [(kept,)] = history.execute("SELECT facts FROM runs").fetchall()
    assert json.loads(kept)["bytes_read"] == 7


def test_what_is_read_is_what_was_known_without_secrets_and_nan(tmp_path):
    message = "postgresql://me:hunter2@db/trips is not there"
    facts = RunFacts(run_id="1").plus(
        {"message": message, "metrics": {"auc": float("nan"), "mse": 0.5}, "notes": ("a",)}
    )
    write_facts(facts, tmp_path / "run.json")
    assert read_facts(tmp_path / "run.json", "") == facts
    assert (facts.metrics, facts.notes) == ({"auc": None, "mse": 0.5}, ["a"])
    assert facts.message == "postgresql://***@db/trips is not there"


def test_a_file_of_other_content_gives_the_facts_that_are_not_known(tmp_path):
    state_file.write(tmp_path / "run.json", {"run": "1", "config": {"hash": "a", "yaml": ""}})
    found = read_facts(tmp_path / "run.json", "")
    assert (found.outcome, found.config["hash"], found.metrics) == ("unfinished", "a", {})
