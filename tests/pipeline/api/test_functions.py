"""The Python API: `import fullpass`."""

import ast
import re
import shutil
import subprocess
import sys
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pyarrow as pa
import pytest
from tensorflow_serving.apis.predict_pb2 import PredictResponse
from tensorflow_serving.apis.prediction_service_pb2_grpc import (
    PredictionServiceServicer,
    add_PredictionServiceServicer_to_server,
)
from typer.testing import CliRunner

import fullpass
from fullpass.base import state_file
from fullpass.base.state_file import DamagedState
from fullpass.pipeline.cli import app
from tests import REPOSITORY

FARES = [3.0, 5.0, None, 10.0, 5.0, 1.5]
COMPANIES = ["b", "a", "b", "", "c", "b"]
TRAIN = {"fare": FARES, "company": COMPANIES, "started": ["2024-02-29"] * 6, "tips": [1.0, 0, 1, 2, 0, 0]}


@pytest.mark.integration
def test_the_import_loads_nothing_heavy_and_every_name_is_there(tmp_path):
    code = (
        "import sys; before = set(sys.modules); import fullpass\n"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('fullpass')))\n"
        "light = [n for n in fullpass.__all__ if getattr(fullpass, n)]\n"
        "print([n for n in ('tensorflow', 'tfx', 'apache_beam', 'keras') if n in sys.modules], len(light))\n"
        "print(set(fullpass.__all__) <= set(dir(fullpass)), fullpass.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[]", f"[] {len(fullpass.__all__)}", "True fullpass"], done.stderr


def test_type_checkers_see_the_names_where_they_are_imported_from():
    tree = ast.parse((REPOSITORY / "fullpass" / "__init__.py").read_text())
    branch = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name: node.module for node in branch.body for alias in node.names}
    assert imported == fullpass._MODULES and sorted(imported) == fullpass.__all__


def test_a_name_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(AttributeError, match=r"no attribute 'lod'\. Its names: .* load,"):
        fullpass.lod  # noqa: B018
    ask = r"'predict'\. Ask an object for it: pipeline.run\(\).predict or fullpass.open_model\(FOLDER\).predict"
    with pytest.raises(AttributeError, match=ask):
        fullpass.predict  # noqa: B018
    assert re.fullmatch(r"\d+\.\d+.*", fullpass.__version__)


def test_check_returns_every_problem_and_load_raises_them(edited):
    assert fullpass.check(edited()) == ()
    file = edited({13: "  task: binnary", 15: "  fare: numbr"})
    assert [(p.line, p.path, p.severity) for p in fullpass.check(file)] == [
        (13, "label.task", "error"),
        (15, "features.fare", "error"),
    ]
    with pytest.raises(fullpass.ConfigError) as caught:
        fullpass.load(file)
    assert caught.value.problems == fullpass.check(file)
    across = edited({20: "    log_loss: {min: 1}"})
    assert [problem.line for problem in fullpass.check(across)] == [20]


def test_load_gives_the_typed_config_and_prints_warnings(edited, capsys):
    pipeline = fullpass.load(edited({18: "schedule: {poll: 5m}\nevaluation:"}))
    assert pipeline.config.label.task == "binary" and list(pipeline.config.features) == ["fare", "company", "started"]
    assert "warning: schedule:" in capsys.readouterr().err


def write_run(root: Path, run_id: str, **facts) -> None:
    usual = {
        "run_id": run_id, "outcome": "success", "ok": True, "blessed": True, "metrics": {"auc": 0.9},
        "baseline": {}, "reasons": [], "rows": {"train": 8, "eval": 2}, "model": "/m", "pushed_to": None,
        "report": None,
    }  # fmt: skip
    folder = root / "logs" / run_id
    folder.mkdir(parents=True)
    state_file.write(folder / "run.json", usual | facts)


@pytest.fixture
def with_runs(edited):
    """Returns a pipeline file with three runs: one whole, one that was not blessed, one that failed early."""
    file = edited()
    root = file.parent / "runs" / "taxi"
    page = file.parent / "page.html"
    page.write_text("<p>")
    write_run(root, "20260101-000000", pushed_to="/serving/1", report=str(page))
    write_run(root, "20260102-000000", blessed=False, reasons=["auc is 0.7"], metrics={"auc": 0.7})
    write_run(root, "20260103-000000", ok=False, blessed=None, metrics={}, rows=None, model=None)
    (root / "logs" / "20260104-000000").mkdir()  # one that was killed
    return file


def test_runs_are_told_the_newest_first(with_runs):
    failed, refused, whole = fullpass.load(with_runs).runs()
    assert (failed.ok, failed.blessed, failed.rows, failed.model_folder) == (False, None, {}, None)
    assert (refused.blessed, refused.reasons, refused.metrics) == (False, ("auc is 0.7",), {"auc": 0.7})
    assert (whole.pushed_to, whole.rows["eval"]) == (Path("/serving/1"), 2)
    assert whole.logs == with_runs.parent / "runs" / "taxi" / "logs" / "20260101-000000"


def test_an_outcome_says_in_a_notebook_what_is_served_now(with_runs):
    target = with_runs.parent / "serving"
    (target / "1").mkdir(parents=True)
    write_run(with_runs.parent / "runs" / "taxi", "20260105-000000", pushed_to=str(target / "1"), notes=[])

    def shown() -> str:
        return fullpass.load(with_runs, runs_here=False).runs()[0]._repr_html_()

    assert "Blessed and pushed (run 20260105-000000)" in shown() and "not served" not in shown()
    (target / "2").mkdir()
    assert "Blessed, but not served now (run 20260105-000000)" in shown()
    assert "version 1 is not served, as a newer one was pushed after it; version 2 is served" in shown()
    (target / "1").rename(target / "rolled_back-1")
    assert "as a rollback put it aside" in shown()


def test_a_damaged_summary_is_named(with_runs):
    pipeline = fullpass.load(with_runs)
    newest = pipeline.runs()[0]
    file = newest.logs / "run.json"
    file.write_text(file.read_text().replace('"ok": false', '"ok": true'))
    with pytest.raises(DamagedState, match=f"{file} is damaged.* Remove it"):
        pipeline.runs()
    file.unlink()
    assert newest.run_id not in [one.run_id for one in pipeline.runs()]


def test_a_run_is_found_by_the_beginning_of_its_id_and_listed_in_a_table(with_runs):
    pipeline = fullpass.load(with_runs)
    runs = pipeline.runs()
    assert runs["20260101"].metrics == {"auc": 0.9} and runs[-1] == runs["20260101-000000"]
    assert [run.run_id[:8] for run in runs[1:]] == ["20260102", "20260101"]
    assert list(runs.table["run_id"]) == [run.run_id for run in runs]
    assert list(runs.table["blessed"]) == [None, False, True]
    with pytest.raises(fullpass.UserError, match=r"taxi: no run 1999. The newest runs: 20260103-000000, 20260102"):
        runs["1999"]
    elsewhere = pipeline.runs(root=with_runs.parent / "elsewhere")
    with pytest.raises(fullpass.UserError, match=r"no run with a report.*none; `pipeline.run\(\)` makes one"):
        elsewhere.with_report()


def test_what_a_run_without_a_model_is_asked_is_refused(with_runs):
    failed, refused, _ = fullpass.load(with_runs).runs()
    with pytest.raises(fullpass.UserError, match="run 20260103-000000: it ended without a model"):
        failed.predict([{"fare": 1.0}])
    with pytest.raises(fullpass.UserError, match="run 20260103-000000 trained no model"):
        failed.bless(why="a test")
    with pytest.raises(fullpass.UserError, match="run 20260102-000000: its model is gone: /m/"):
        refused.model.explain([{"fare": 1.0}])
    with pytest.raises(fullpass.UserError, match=r"Received: 1795887520. Accepted: a model, a run, a pipeline"):
        refused.compare(1795887520)


def test_a_notebook_shows_a_pipeline_its_runs_and_its_versions(with_runs):
    """Text of the data is escaped: the reason here has a tag."""
    write_run(
        with_runs.parent / "runs" / "taxi",
        "20260105-000000",
        blessed=False,
        reasons=["auc <b> is 0.7"],
        notes=["too good"],
    )
    page = fullpass.load(with_runs)._repr_html_()
    assert "<b style=''>taxi: binary label big_tipper, model wide_deep</b>" in page
    assert "needs 3 columns: company, fare, started" in page and "fare: number" in page
    refused, failed, _, whole = runs = fullpass.load(with_runs).runs()
    assert "<td" in refused._repr_html_() and "auc &lt;b&gt; is 0.7" in refused._repr_html_()
    assert "too good" in refused._repr_html_() and "Not blessed" in refused._repr_html_()
    assert "The run did not finish" in failed._repr_html_() and "Blessed, but not served now" in whole._repr_html_()
    assert "0.9000" in whole.metrics._repr_html_() and "page.html" in whole._repr_html_()
    assert "20260105-000000" in runs._repr_html_() and "not served now (removed)" in runs._repr_html_()
    assert "20260105-000000" not in runs[1:]._repr_html_() and "20260103-000000" in runs[1:]._repr_html_()
    assert "No model has been pushed" in fullpass.load(with_runs).versions()._repr_html_()


@pytest.fixture
def browser(monkeypatch):
    """The addresses that a browser is asked to open."""
    opened = []

    class Browser(webbrowser.BaseBrowser):
        def open(self, url, new=0, autoraise=True):
            opened.append(url)
            return True

    monkeypatch.setattr(webbrowser, "_browsers", {})
    monkeypatch.setattr(webbrowser, "_tryorder", [])
    webbrowser.register("a-test", None, Browser("a-test"), preferred=True)
    return opened


def test_the_report_is_opened(with_runs, browser):
    page = with_runs.parent / "page.html"
    runs = fullpass.load(with_runs).runs()
    assert runs.with_report().open_report() == page and browser == [page.as_uri()]
    with pytest.raises(fullpass.UserError, match="run 20260103-000000 has no report"):
        runs["20260103-000000"].open_report()


def test_the_command_report_prints_or_opens_the_page(with_runs, browser, capsys):
    page = with_runs.parent / "page.html"
    for arguments, opened in (([], []), (["20260101", "--open"], [page.as_uri()])):
        app(["report", "-f", str(with_runs), *arguments], standalone_mode=False)
        assert capsys.readouterr().out == f"{page}\n" and browser == opened
    with pytest.raises(fullpass.UserError, match="no run 2027. The newest runs: 2026"):
        app(["report", "2027", "-f", str(with_runs)], standalone_mode=False)


def test_rows_of_another_kind_are_refused():
    from fullpass.pipeline.api.frames import as_arrow

    with pytest.raises(fullpass.UserError, match=r"Received: builtins.int. Accepted: a pyarrow Table"):
        as_arrow(3)
    with pytest.raises(fullpass.UserError, match="values of one type"):
        as_arrow([{"a": 1}, {"a": "x"}])


@pytest.mark.integration
def test_a_run_that_cannot_begin_raises_what_the_command_says(edited):
    with pytest.raises(fullpass.UserError, match="has no spans"):
        fullpass.load(edited()).run(span="2024-01-01", quiet=True)


@pytest.fixture(scope="module")
def transform(tmp_path_factory):
    from tests.pipeline.conftest import TRIPS, VALID

    folder = tmp_path_factory.mktemp("api")
    (folder / "trips.csv").write_text(TRIPS)
    (folder / "pipeline.yaml").write_text(VALID)
    return fullpass.load(folder / "pipeline.yaml").analyze(TRAIN)


@pytest.mark.integration
def test_features_have_the_statistics_of_the_rows_analysed(transform):
    """Against NumPy: a z-score of the present fares; ids 0 missing, 1 unseen, then by frequency."""
    present = np.array([fare for fare in FARES if fare is not None])
    later = {"fare": [0.0, 7.5, -1.0], "company": ["b", "new", ""], "started": ["2024-03-01"] * 3}
    given = transform.numpy(later)
    expected = (np.array([0.0, 7.5, -1.0]) - present.mean()) / present.std()
    np.testing.assert_allclose(given["fare_xf"], expected, rtol=1e-5)
    assert given["fare_xf"].dtype == np.float32
    assert transform.vocabulary("company")[0] == "b" and set(transform.vocabulary("company")) == {"a", "b", "c"}
    assert given["company_xf"].tolist() == [2, 1, 0]
    assert "label" not in given and "row_id" not in given
    labels = transform.numpy({**later, "tips": [1.0, 0.0, 0.0]})["label"]
    assert labels.tolist() == [1.0, 0.0, 1.0], "tips > 0.2 * fare"


@pytest.mark.integration
def test_tables_of_every_kind_give_the_same(transform):
    import pandas as pd
    import polars as pl

    columns = {"fare": [2.0, None], "company": ["b", "a"], "started": ["2024-03-01", None]}
    arrow = pa.table(columns)
    expected = transform(arrow)
    rows = arrow.to_pylist()
    for table in (arrow.to_batches()[0], rows, columns):
        assert transform(table).equals(expected), type(table)
    frame = transform(pd.DataFrame(columns, index=["x", "y"]))
    pd.testing.assert_frame_equal(frame, expected.to_pandas().set_axis(["x", "y"]))
    assert transform(pl.DataFrame(columns)).to_arrow().cast(expected.schema).equals(expected)
    assert "company_xf" in transform._repr_html_() and "float" in transform._repr_html_()


@pytest.mark.integration
def test_what_cannot_be_transformed_is_told_by_column_and_row(transform):
    with pytest.raises(fullpass.UserError, match=r"column 'fare', row 1: 'x' is not a number"):
        transform({"fare": ["1", "x"], "company": ["a", "a"], "started": [None, None]})
    with pytest.raises(fullpass.UserError, match="no column 'company'"):
        transform({"fare": [1.0], "started": [None]})
    twice = pa.table([pa.array([1.0]), pa.array([2.0]), ["a"], ["2024-03-01"]], ["fare", "fare", "company", "started"])
    with pytest.raises(fullpass.UserError, match="column 'fare' twice"):
        transform(twice)
    with pytest.raises(fullpass.UserError, match="'fare' learns no vocabulary"):
        transform.vocabulary("fare")


@pytest.mark.long
@pytest.mark.e2e
def test_the_page_on_the_api_runs_as_it_stands(tmp_path, monkeypatch, browser):
    monkeypatch.chdir(tmp_path)
    text = (REPOSITORY / "docs" / "api.md").read_text()
    named = set(re.findall(r"fullpass\.(\w+)", text)) | set(re.findall(r"`(\w+)[(`]", text))
    assert set(fullpass.__all__) <= named
    page: dict = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "docs/api.md", "exec"), page)  # noqa: S102
    run, shorter, fare = page["run"], page["shorter"], page["fare"]
    assert run.ok and run.blessed and sum(run.rows.values()) == 4_000
    assert page["newest"].run_id == shorter.run_id and browser == [run.report.as_uri()] == [page["page"].as_uri()]
    assert list(run.history.index) == [1, 2, 3, 4, 5] and list(shorter.history.index) == [1, 2]
    assert "epochs: 2" in shorter.facts["config"]["yaml"] and "epochs: 5" in run.facts["config"]["yaml"]
    assert Path("pipeline.yaml").read_text().count("epochs: 5") == 1, "the file stays as it is"
    (version,) = page["pipeline"].versions()
    assert version.state == "served" and Path(version.folder) == run.pushed_to
    assert page["pipeline"].model.folder == run.pushed_to
    assert page["transform"].vocabulary("company") == ["Acme", "Blue", "City"]
    expected = (3.5 - fare.mean()) / fare.std()
    np.testing.assert_allclose(page["transform"].numpy(page["new"])["fare_xf"][0], expected, rtol=1e-4)
    assert page["predicted"]["prediction"].to_pylist() == ["1", "0"]
    # The same rows from the file and from memory, and a row that cannot be read.
    of_file = page["model"].predict("trips.csv")
    of_table = run.predict(page["trips"])
    np.testing.assert_array_equal(of_file["probability_1"].to_numpy(), of_table["probability_1"].to_numpy())
    assert (of_table["prediction"].to_numpy() == (fare > 12).astype(int).astype(str)).mean() > 0.8
    mixed = page["model"].predict({"fare": ["30", "much"], "company": ["Acme", "Acme"]})
    assert mixed["prediction"].to_pylist() == ["1", None]
    assert "column 'fare': not a number" in mixed["bad_row"][1].as_py()
    the_page_on_serving_runs_on(Path("serving"))


class OfServing(PredictionServiceServicer):
    """Answers calls in the protocol of TF Serving, whose program is not in the environment."""

    def __init__(self, folder):
        import tensorflow as tf

        self._tf, self._loaded = tf, tf.saved_model.load(folder)

    def Predict(self, request, context):
        given = {name: self._tf.constant(self._tf.make_ndarray(value)) for name, value in request.inputs.items()}
        answer = PredictResponse()
        for name, value in getattr(self._loaded, request.model_spec.signature_name)(**given).items():
            answer.outputs[name].CopyFrom(self._tf.make_tensor_proto(value))
        return answer


def the_page_on_serving_runs_on(served):
    from fastapi.testclient import TestClient

    for to, folder in (("litert", "phone"), ("onnx", "server")):
        done = CliRunner().invoke(app, ["export", str(served), "--to", to, "--out", folder], catch_exceptions=False)
        assert "0 predictions differ" in done.output
        (compared,) = re.findall(r"On (\S+) rows the largest difference from the SavedModel is (\S+) ", done.output)
        assert int(compared[0]) > 700 and float(compared[1]) < 1e-5
    server = grpc.server(ThreadPoolExecutor(1))
    add_PredictionServiceServicer_to_server(OfServing(str(served / "current")), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    page: dict = {}
    text = (REPOSITORY / "docs" / "serving.md").read_text().replace("localhost:8500", f"localhost:{port}")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "docs/serving.md", "exec"), page)  # noqa: S102
    server.stop(None)
    (high, low), answers = page["scores"], page["answers"]
    assert high > 0.5 > low and [answer["prediction"] for answer in answers] == ["1", "0"]
    np.testing.assert_allclose(answers[1]["probabilities"]["1"], low, atol=1e-5)  # without a company in both
    assert [row["probabilities"] for row in page["on_phone"]] == [
        pytest.approx(row["probabilities"], abs=1e-5) for row in answers
    ]
    answered = TestClient(page["app"]).post("/predict", json=[{"fare": 20.0, "company": "Acme"}, {"fare": 3.5}])
    found = [(row["prediction"], row["probability_1"]) for row in answered.json()]
    expected = [(answer["prediction"], pytest.approx(answer["probabilities"]["1"], abs=1e-5)) for answer in answers]
    assert found == expected
    mistakes_of_a_client_are_answered(TestClient(page["app"], raise_server_exceptions=False))
    logits = page["network"]({"fare_xf": np.zeros(1, np.float32), "company_xf": np.zeros(1, np.int64)})
    assert logits.shape == (1, 1)
    another_network_is_refused(page["model"], page["network"])


def mistakes_of_a_client_are_answered(client):
    good = {"fare": 20.0, "company": "Acme"}
    for bad, reason in (("much", "not a number"), ({"a": 1}, "not a number"), ([1, 2], "several values")):
        answered = client.post("/predict", json=[good, good | {"fare": bad}])
        assert answered.status_code == 200, bad
        one, other = answered.json()
        assert one["prediction"] == "1" and one["bad_row"] is None and other["prediction"] is None
        assert other["bad_row"].startswith("row 1: column 'fare': ") and reason in other["bad_row"]
    mixed = client.post("/predict", json=[good, {"fare": 2, "company": 5}, {"fare": 10**30}])
    assert [row["prediction"] for row in mixed.json()] == ["1", "0", "1"]
    mistakes = (
        ("[]", "The model reads: company, fare"),
        ("[{}]", "The model reads: company, fare"),
        ('[{"fares": 3}]', "none of the columns that the model reads"),
        ('[{"fare": "much"}]', "none of its 1 rows can be used"),
        ('[{"fare": 1e400}]', "outside the range of float32"),
        ('[{"fare": {"a": 1}}]', "column 'fare' is a struct"),
        ('[{"company": "\\ud800"}]', "surrogates not allowed"),
        ('[{"fare": 3, "prediction": 1}]', "'prediction' has the name of a prediction"),
    )
    for body, says in mistakes:
        answered = client.post("/predict", content=body, headers={"content-type": "application/json"})
        assert answered.status_code == 422 and says in answered.json()["detail"], (body, answered.text)


def another_network_is_refused(model, network):
    from fullpass.components.portable.export_portable import export_portable

    model = model.exported
    copy = Path(shutil.copytree(model.directory, "copy"))
    for weight in network.weights:
        weight.assign(0.5 * weight)
    network.save(copy / "assets.extra" / "network.keras")
    rows = [{"fare": np.array([5.0, 20.0], np.float32), "company": np.array([b"Acme", b""])}]
    with pytest.raises(fullpass.UserError, match=r"does not answer like the SavedModel: \d of 2 rows differ"):
        export_portable(replace(model, directory=copy), "onnx", Path("refused"), rows)
    assert not Path("refused").exists() and not Path("refused.tmp").exists()
    with pytest.raises(fullpass.UserError, match="already exists"):
        export_portable(model, "onnx", Path("server"), rows)
