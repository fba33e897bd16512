"""Wild text wherever data, paths and people's words are shown: all of it, and never as a command to the terminal."""

import io
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.judge_metrics import judge_metrics
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.pipeline.printing import console
from fullpass.pipeline.record.events import NodeEnded, NodeResult, Status
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.notifications import Payload
from fullpass.pipeline.record.summary import print_summary
from fullpass.pipeline.registry import list_versions, locate_model
from fullpass.pipeline.registry.locate_model import LineageRecord
from fullpass.pipeline.running.execution.display import display

COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
MARKUP = ("[/red]", "[bold", "]", "\\", "[link=x]", ":bug:", "<b>")
PIECES = (*MARKUP, "\x1b[2J", "\x1b]8;;x\x07", "\x9b1m", "\r", "\0", "\udcff")
# Any code point, lone surrogates included, among pieces that rich or a terminal would read.
wild = st.lists(st.one_of(st.text(st.characters(), max_size=4), st.sampled_from(PIECES)), max_size=6).map("".join)


def summary(text, screen):
    values = {"auc": 0.5, "example_count": 900.0}
    rows = [MeasuredRows((), values), MeasuredRows((("zone", text),), values)]
    config = EvaluationConfig.model_validate({"slices": [["zone"]], "thresholds": {"auc": {"slices": {"min": 0.6}}}})
    told = RunFacts(ok=True, blessed=False, reasons=(text,), quarantine=(text,), report=text, model=text, seconds=1.0)
    print_summary(told, judge_metrics(rows, config), screen)


def models(text, screen):
    spans = {"first": text, "last": text, "count": 2}
    version = list_versions.Version(1, "served", "2026-01-01", text, text, {text: 0.5}, spans, 3, *4 * (text,))
    screen.print(list_versions.table([version], Path("/x") / text.replace("\0", "")))


def lineage(text, screen):
    blessing = {"blessed": False, "by": text, "at": text, "why": text, "reasons": [text], "notes": [text]}
    gates = {text: {text: text, "found": [text]}}
    facts = {"model": text, "metrics": {text: 0.5}, "blessing": blessing, "gates": gates}
    screen.print(locate_model.tree(LineageRecord(facts, text)))


def progress(text, screen):
    with display(screen) as listener:
        listener(NodeEnded(result=NodeResult(id="Ingest", status=Status.FAILED, error=text, log=Path("x"))))


@pytest.mark.parametrize("show", [summary, models, lineage, progress])
@settings(max_examples=40, deadline=None)
@given(text=wild)
@example(text="[/red]")  # raises an error if one of the places, which each show it, reads markup
def test_wild_text_is_shown_and_commands_nothing(show, text):
    file = io.StringIO()
    show(f"A{text}Z", console(file, width=5000))
    printed = file.getvalue()
    assert not COMMANDS.search(printed)
    printed.encode("utf-8")
    # What is left of it when control characters and the breaks of lines and cells are: every letter, in order.
    letters = "".join(letter for letter in text if letter.isalnum() and letter.isascii() and not COMMANDS.match(letter))
    assert re.search("A.*?" + ".*?".join(letters) + ".*?Z", printed, re.DOTALL)


@given(text=wild)
def test_wild_text_in_a_payload_is_json_and_fits_into_variables(text):
    payload = Payload("failure", text, RunFacts(pipeline="p", file=text, reasons=(text,)))
    payload.to_json().decode("ascii")
    for value in payload.variables().values():
        assert "\0" not in value and not COMMANDS.search(value)
