"""The notebook in examples/, executed by a kernel, as a person would see it."""

import html
import io
import re
import shutil

import nbformat
import numpy as np
import pandas as pd
import pytest
from nbclient import NotebookClient

from tests import REPOSITORY

NOTEBOOK = REPOSITORY / "examples" / "notebook" / "trips.ipynb"


PIPELINE = """
import numpy as np, pandas as pd
import fullpass
random = np.random.default_rng(7)
trips = pd.DataFrame(
    {"miles": random.gamma(2.0, 2.0, 1_200).round(1), "company": random.choice(["Acme", "Blue"], 1_200)}
)
trips["tipped"] = (random.random(1_200) < 1 / (1 + np.exp(3 - trips["miles"]))).astype(int)
"""
ANSWERED = (
    "pipeline = fullpass.init(trips, label='tipped', output='trips.yaml')",
    "run = pipeline.run(model={'kind': 'trees'}, quiet=True)",
    "run",
    "run.metrics",
    "pipeline.runs()",
    "pipeline.versions()",
    "pipeline.model",
    "run.predict(trips.head(2))",
    "run.explain(trips.head(2))",
    "run.explain(trips.head(2)).rows",
    "run.evaluate(trips)",
    "run.leaderboard()",
    "run.compare(pipeline)",
    "run.lineage['config']['yaml'].count('trees')",
    "run.model.metadata['label']",
    "pipeline.gc(dry_run=True).kept",
)
REFUSED = {
    "fullpass.predict": r"Ask an object for it: pipeline.run\(\).predict or fullpass.open_model\(FOLDER\).predict",
    "pipeline.run(epoch=3)": 'no setting epoch. Did you mean "epochs"',
    "pipeline.run(model={'kind': 'tree'})": 'trips.yaml: model.kind: unknown kind "tree". Did you mean "trees"',
    "fullpass.load('trip.yaml')": 'no such file. Did you mean "trips.yaml"',
    "run.predict(3)": "Accepted: a pyarrow Table",
    "run.predict(trips, explain=True)": "explain: settings by which files are read. These rows are in memory",
    "run.compare(17)": "Received: 17. Accepted: a model, a run, a pipeline",
    "pipeline.runs()['1999']": "no run 1999. The newest runs: ",
    "fullpass.init(trips, label='nope', output='o.yaml')": "no such column. Columns: miles, company, tipped",
    "fullpass.open_model('nowhere')": "nowhere: there is no such folder",
    "pipeline.rollback()": "no earlier version to go back to",
    "run.bless(why='a test')": "was blessed and pushed already",
    "run.modle": "'Run' object has no attribute 'modle'",
}
MOST_LINES = 6
"""Lines that an error may have in a notebook."""


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
    # The losses stay as a chart: of trees and network, on the rows that train and those that choose.
    told = re.findall(r"(trees|wide_deep), (train|validation) 0\.\d{4}", page)
    assert len({*told}) == 4 and ran.data["text/html"].count("<polyline") == 4
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


@pytest.mark.e2e
@pytest.mark.long
def test_objects_answer_and_a_mistake_is_a_sentence(tmp_path):
    """Every cell twice: no line of another library in any, and the same answers or mistakes again."""
    sources = [PIPELINE, *2 * [*ANSWERED, *REFUSED]]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=400, kernel_name="python3", allow_errors=True, resources=resources).execute()
    written = {one.source: cell for one in notebook.cells for cell in one.outputs if cell.output_type == "stream"}
    assert list(written) == [ANSWERED[0]], written
    for cell in notebook.cells:
        errors = [
            re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(o.traceback)) for o in cell.outputs if o.output_type == "error"
        ]
        says = REFUSED.get(cell.source)
        assert bool(errors) == (says is not None), (cell.source, errors)
        if says:
            assert re.search(says, errors[0]) and errors[0].count("\n") < MOST_LINES, errors[0]
    shown = {cell.source: cell.outputs[-1] for cell in notebook.cells if cell.source in ANSWERED[2:]}
    assert text_of(shown["run"]).startswith("Blessed and pushed (run ")
    assert text_of(shown["pipeline.model"]).startswith("Model folder")
    assert shown["run.lineage['config']['yaml'].count('trees')"].data["text/plain"] == "1"
    effects = pd.read_html(io.StringIO(shown["run.explain(trips.head(2)).rows"].data["text/html"]))[0]
    assert text_of(shown["run.explain(trips.head(2))"]).startswith("2 predictions explained")
    summed = effects[["base", "effect_company", "effect_miles"]].sum(axis=1)
    np.testing.assert_allclose(summed, effects["probability_1"], atol=1e-5)
