"""What a cell of a real kernel keeps of a run."""

import html
import re

import nbformat
import pytest
from nbclient import NotebookClient

SHOW = """
import sys
from pathlib import Path
from fullpass.pipeline.record.events import to_line
from fullpass.pipeline.record.events import *
from fullpass.pipeline.running.execution.display import NotebookDisplay, in_notebook

assert in_notebook()
broken = NodeResult(id="Trainer", status=Status.FAILED, seconds=2.0, log=Path("t.log"), error="<b>no rows</b>")
shown = NotebookDisplay("taxi")
shown.line("Loading ...\\n")
shown.line(to_line(RunStarted(run_id="r1", pipeline_name="taxi", node_ids=("Ingest", "Trainer"), base_run_id=None)))
losses = {"trees, train": [0.75, 0.5], "trees, validation": [0.7, float("nan"), 0.6]}
shown.line(to_line(NodeRunning(id="Trainer", seconds=1.0, progress=None, losses=losses)))
for second in range(1000):
    shown.line(to_line(NodeRunning(id="Ingest", seconds=second / 4, progress=None)))
shown.line(to_line(NodeEnded(result=NodeResult(id="Ingest", status=Status.OK, seconds=250.0))))
shown.line(to_line(NodeEnded(result=broken)))
"""
END = """
class Outcome:
    def _repr_html_(self):
        return "<i>auc 0.9</i>"

shown.line(to_line(RunEnded(result=RunResult(
    run_id="r1", pipeline_name="taxi", metadata_path=Path("m.db"), nodes=(broken,), seconds=2.0))))
shown.line("rows  8 read\\n")
shown.end(Outcome())
"""


def outputs_of(tmp_path, *sources: str) -> list:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    resources = {"metadata": {"path": str(tmp_path)}}
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources=resources).execute()
    return [cell.outputs for cell in notebook.cells]


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", page)).split())


@pytest.mark.integration
def test_a_run_is_one_output_that_changes(tmp_path):
    """A thousand events leave one output; text of the run is escaped, and its summary follows the outcome."""
    [(running,)] = outputs_of(tmp_path, SHOW)
    assert text_of(running.data["text/html"]) == (
        "taxi: running Ingest ok 4:10 Trainer failed 2.0 s <b>no rows</b> "
        "0.7500 0.5000 epoch 1 epoch 3 trees, train 0.5000 trees, validation 0.6000 Loading ..."
    )
    # Three epochs lie 200 pixels apart, and 0.75 to 0.5 are 120 pixels.
    lines = re.findall('points="([^"]+)"', running.data["text/html"])
    assert lines == ["0.0,0.0 200.0,120.0", "0.0,24.0 400.0,72.0"]
    (ended,), nothing = outputs_of(tmp_path, SHOW, END)
    page = ended.data["text/html"]
    assert nothing == [] and page.startswith("<i>auc 0.9</i>")
    assert text_of(page) == (
        "auc 0.9 0.7500 0.5000 epoch 1 epoch 3 trees, train 0.5000 trees, validation 0.6000 "
        "nodes Ingest ok 4:10 Trainer failed 2.0 s <b>no rows</b> all that fullpass run prints "
        "Loading ... Trainer failed: <b>no rows</b> Its log: t.log rows 8 read"
    )
    assert (
        "\x1b" not in ended.data["text/plain"] and "Trainer: failed, 2.0 s, <b>no rows</b>" in ended.data["text/plain"]
    )
