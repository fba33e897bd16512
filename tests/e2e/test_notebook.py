"""The notebook in examples/, executed by a kernel, as a person would see it."""

import html
import re
import shutil

import nbformat
import pytest
from nbclient import NotebookClient

from tests import REPOSITORY

NOTEBOOK = REPOSITORY / "examples" / "notebook" / "trips.ipynb"


def text_of(output) -> str:
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", output.data["text/html"])).split())


@pytest.mark.e2e
@pytest.mark.long
def test_the_notebook_runs_and_shows_what_it_says(tmp_path):
    shutil.copy(NOTEBOOK, tmp_path)
    notebook = nbformat.read(tmp_path / NOTEBOOK.name, 4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "committed without outputs"
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=400, kernel_name="python3", resources=resources).execute()
    outputs = {cell.source.splitlines()[-1]: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    assert "\x1b" not in str(outputs) and "\\x1b" not in str(outputs)

    (ran,) = outputs["run = pipeline.run()"]
    page = text_of(ran)
    assert ran.output_type == "display_data" and page.startswith("Blessed and pushed (run ")
    assert re.search(r"train [12],\d{3}, validation \d{3}, eval \d{3}", page) and "Trainer ok" in page
    assert page.count("Loading TensorFlow") == 1
    (report,) = re.findall('href="([^"]+report.html)"', ran.data["text/html"])
    assert (tmp_path / report).is_file(), "relative to the notebook"

    shown = [text_of(one) for given in outputs.values() for one in given if "text/html" in one.get("data", {})]
    for part in (
        "trips: binary label tipped, model auto features 3:",
        "metric auc",
        "miles 0.",
        "predicted 0 1 actual 0",
        "Model folder",
        "Pushed models version pushed state auc",
    ):
        assert any(part in text for text in shown), (part, shown)

    said, predicted = outputs["run.predict(new)"]
    assert said.text == "Columns that the table lacks, taken as missing: hour\n"
    assert [one for given in outputs.values() for one in given if one.get("name") == "stderr"] == [said]
    assert re.search(r"short 0\.5 Acme 0 0\.\d+ 0\.\d+ None long 12\.0 Blue 1", text_of(predicted))
