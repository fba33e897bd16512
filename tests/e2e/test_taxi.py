"""The taxi example, run as by a user, from the CSV to a pushed model that predicts."""

import csv
import importlib.util
import json
import shutil
import sys
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pytest
from tfx.types import standard_artifacts

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.components.artifacts import ParityReport
from fullpass.components.parity.component import Parity
from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.record.list_runs import read_runs
from tests.record_files import read_examples, read_records

pytestmark = pytest.mark.e2e

ROWS = 15_002


def test_the_run_says_what_happened(taxi):
    text = taxi.done.stdout
    assert "15,002 read" in text and "quarantined 0" in text
    assert "0 mismatches" in text and "Blessed and pushed to" in text
    noise = [w for w in ("WARNING", "Traceback", "absl", "cuda", "deprecat") if w in text + taxi.done.stderr]
    assert not noise, text + taxi.done.stderr


def test_every_row_is_accounted_for_from_csv_to_transformed_examples(taxi):
    summary = taxi.summary()
    assert summary["rows_read"] == ROWS == sum(summary["rows"].values())
    assert 0.77 < summary["rows"]["train"] / ROWS < 0.83
    for split, expected in summary["rows"].items():
        for node, output in (("Ingest", "examples"), ("Transform", "transformed_examples")):
            files = (taxi.artifact(node, output) / f"Split-{split}").iterdir()
            assert sum(1 for _ in read_records(*files)) == expected


def test_the_model_is_far_better_than_guessing_and_blessed(taxi):
    summary = taxi.summary()
    assert summary["blessed"] and summary["metrics"]["auc"] > 0.93


def test_the_report_says_what_the_summary_says(taxi):
    page = Path(taxi.summary()["report"]).read_text().replace("<wbr>", "")
    assert f"{ROWS:,}" in page and f"{taxi.summary()['metrics']['auc']:.4f}" in page
    assert "<th>slice</th>" in page and "trip_start_hour 12" in page
    assert page.count('<figure class="chart"') > 10


def test_the_served_model_is_compared_with_its_run_on_the_rows_of_the_evaluator(taxi, fullpass):
    summary = taxi.summary()
    done = fullpass("fullpass", "compare", summary["run_id"], "latest", "--json", cwd=taxi.folder)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["examples"], said["reason"], said["changes"]) == (summary["rows"]["eval"], None, [])
    assert said["rows"] == "the eval split of both, which have the same data"
    assert {m["metric"]: m["a"] for m in said["metrics"]} == pytest.approx(summary["metrics"], rel=1e-6)
    assert all(m["a"] == m["b"] and m["verdict"] == "equal" for m in said["metrics"])


def test_mlflow_has_what_the_summary_says(taxi):
    summary = taxi.summary()
    [run] = (taxi.folder / "mlruns").glob("*/*/metrics")
    values = {name: (run / name).read_text().splitlines() for name in ("eval/auc", "rows/train", "validation/log_loss")}
    assert float(values["eval/auc"][0].split()[1]) == summary["metrics"]["auc"]
    assert float(values["rows/train"][0].split()[1]) == summary["rows"]["train"]
    assert [line.split()[2] for line in values["validation/log_loss"]] == [
        str(epoch) for epoch in range(1, summary["training"]["epochs"] + 1)
    ]
    tags = {file.name: file.read_text() for file in (run.parent / "tags").iterdir()}
    assert (tags["mlflow.runName"], tags["fullpass.outcome"]) == (summary["run_id"], "success")
    assert (tags["fullpass.pushed_to"], tags["fullpass.gate.auc"][:5]) == (summary["pushed_to"], "met: ")
    assert {"report.html", "model_card.md", "pipeline.yaml"} <= {f.name for f in (run.parent / "artifacts").iterdir()}


def test_statistics_come_from_the_train_split_only(taxi):
    """Compares the z-score of trip_miles with the csv module and NumPy on the rows of the train split."""
    import numpy as np

    manifest = json.loads((taxi.artifact("Ingest", "examples") / "ingest.json").read_text())
    with open(manifest["files"][0]) as f:
        miles = [row["trip_miles"] for row in csv.DictReader(f)]
    values = {}
    for split in ("train", "eval"):
        files = (taxi.artifact("Transform", "transformed_examples") / f"Split-{split}").iterdir()
        for features in read_examples(*files):
            row = split, features["row_id"].int64_list.value[0]
            values[row] = features["trip_miles_xf"].float_list.value[0]
    raw = {key: miles[key[1] - 2] for key in values}  # the header is row 1
    logs = {key: np.log1p(np.clip(float(text), 0, 100)) for key, text in raw.items() if text}
    train = np.array([value for (split, _), value in logs.items() if split == "train"])
    expected = {key: (value - train.mean()) / train.std() for key, value in logs.items()}
    assert len(expected) > 14_000
    np.testing.assert_allclose([values[k] for k in expected], list(expected.values()), atol=2e-4)


def test_the_second_run_repeats_nothing(taxi, fullpass):
    before = taxi.version()
    done = fullpass("fullpass", "run", taxi.config)
    assert done.returncode == 0, done.stdout + done.stderr
    nodes = taxi.summary()["nodes"]
    assert {node["status"] for node in nodes.values()} == {"cached"}
    assert not any(node["cpu_seconds"] for node in nodes.values()), "decided without a process per node"
    assert "Nothing new; blessed before" in done.stdout and taxi.version() == before


def test_predict_answers_raw_rows_that_have_no_label_columns(taxi, fullpass, tmp_path):
    out = tmp_path / "answers.jsonl"
    done = fullpass("fullpass", "predict", taxi.folder / "serving", taxi.folder / "three_trips.jsonl", "-o", out)
    assert done.returncode == 0, done.stdout + done.stderr
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(answers) == 3
    assert all("tips" not in answer for answer in answers)
    assert {answer["prediction"] for answer in answers} <= {"0", "1"}


def test_a_moved_export_answers_with_most_columns_absent_and_served_with_tensorflow_alone(taxi, tmp_path):
    """ServingCheck loads the export in a process that can import TensorFlow and nothing else of the pipeline."""
    import tensorflow as tf

    assert taxi.summary()["nodes"]["ServingCheck"]["status"] in ("ok", "cached")
    serve = tf.saved_model.load(str(shutil.copytree(taxi.version(), tmp_path / "elsewhere"))).signatures["serving_raw"]

    def score(payment: str) -> float:
        given = {"fare": [12.0], "payment_type": [payment], "trip_miles": [3.0], "trip_seconds": [600.0]}
        columns = serve.structured_input_signature[1].items()
        return serve(**{name: tf.constant(given.get(name, []), spec.dtype) for name, spec in columns})["scores"][0]

    assert score("Credit Card") > 5 * score("Cash"), "tips of cash trips are hardly ever recorded"


def parity(taxi, model, tmp_path, ready=None):
    """Calls the function of the Parity component on the artifacts of the run, with another model."""
    examples = standard_artifacts.Examples()
    examples.uri = str(taxi.artifact("Ingest", "examples"))
    trained = standard_artifacts.Examples()
    trained.uri = str(ready or taxi.artifact("Transform", "transformed_examples"))
    graph = standard_artifacts.TransformGraph()
    graph.uri = str(taxi.artifact("Transform", "transform_graph"))
    candidate = standard_artifacts.Model()
    candidate.uri = str(model)
    model_run = standard_artifacts.ModelRun()
    model_run.uri = str(taxi.artifact("Trainer", "model_run"))
    report = ParityReport()
    report.uri = str(tmp_path)
    config = load(taxi.config).config
    Parity.test_call(
        examples=[examples],
        ready=[trained],
        transform_graph=graph,
        model=candidate,
        model_run=model_run,
        report=report,
        preprocessing=config.preprocessing_config.model_dump_json(),
        options=config.parity.model_dump_json(),
    )


def test_parity_holds_for_every_feature_and_eval_row(taxi):
    compared = json.loads((taxi.artifact("Parity", "report") / "parity.json").read_text())
    rows = taxi.summary()["rows"]["eval"]
    assert {c["rows"] for c in compared} == {rows} and not any(c["mismatches"] for c in compared)
    assert {"trip_miles_xf", "company_xf", "route_xf", "label", "scores"} <= {c["feature"] for c in compared}


def test_parity_finds_and_names_one_changed_constant(taxi, tmp_path):
    """Two lines of the company vocabulary are swapped in a copy of the export."""
    model = shutil.copytree(taxi.artifact("Trainer", "model"), tmp_path / "model")
    (vocabulary,) = (p for p in model.glob("Format-Serving/assets/*company*") if "size" not in p.name)
    lines = vocabulary.read_text().splitlines()
    lines[0], lines[1] = lines[1], lines[0]
    vocabulary.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError) as error:
        parity(taxi, model, tmp_path)
    message = str(error.value)
    assert "company_xf (training input = export)" in message
    assert "data.csv, row " in message and ("6 against 5" in message or "5 against 6" in message)
    assert "trip_miles_xf" not in message


def test_parity_compares_the_columns_that_training_reads(taxi, tmp_path):
    """One distance is changed in a copy of the columns of the eval split; the TFRecord files stay as they are."""
    ready = shutil.copytree(taxi.artifact("Transform", "transformed_examples"), tmp_path / "ready")
    file, name = ready / "columns" / "eval-00000.arrow", "trip_miles_xf"
    table = pa.ipc.open_stream(file.read_bytes()).read_all()
    values = table[name].to_pylist()
    values[7] += 1.0
    changed = table.set_column(table.schema.get_field_index(name), name, pa.array(values, table[name].type))
    with pa.ipc.new_stream(str(file), changed.schema) as writer:
        writer.write_table(changed)
    index = json.loads((ready / "columns" / "eval.json").read_text())
    content = file.read_bytes()
    index["files"][0] |= {"bytes": len(content), "crc32c": google_crc32c.value(content)}
    (ready / "columns" / "eval.json").write_bytes(state_file.encode(index))
    with pytest.raises(UserError) as error:
        parity(taxi, taxi.artifact("Trainer", "model"), tmp_path, ready)
    assert f"{name} (training input = export): 1 of " in str(error.value)


def test_the_features_are_measured_and_a_shorter_yaml_is_written_that_leaves_the_root_alone(taxi, fullpass, tmp_path):
    example = Path(__file__).parents[2] / "examples/taxi/pipeline.yaml"
    shutil.copy(example, tmp_path)
    before = {path for path in taxi.folder.rglob("*") if path.is_file()}
    shorter = tmp_path / "shorter.yaml"
    options = ("--features", "--last", "4", "--write", shorter, "--root", taxi.folder / "runs" / "taxi", "--json")
    done = fullpass("fullpass", "diagnose", tmp_path / "pipeline.yaml", *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    features = {one["feature"]: one for one in found["features"]}
    assert (next(iter(features)), len(features)) == ("payment_type", 13)
    with open(json.loads((taxi.artifact("Ingest", "examples") / "ingest.json").read_text())["files"][0]) as f:
        rows = list(csv.DictReader(f))
    expected = {
        "company": sum(not row["company"] for row in rows) / ROWS,
        "fare_per_mile": sum(float(row["trip_miles"] or 0) == 0 for row in rows) / ROWS,
    }
    assert {name: features[name]["missing"] for name in expected} == pytest.approx(expected, abs=0.02)
    auc = next(one for one in found["without"]["metrics"] if one["metric"] == "auc")
    assert auc["all"] == pytest.approx(taxi.summary()["metrics"]["auc"], abs=0.01)
    assert abs(auc["difference"]) < 0.02
    gone = {*features} - {*load(shorter).config.features}
    assert gone == {*found["without"]["features"]} == {*list(features)[-4:]}
    assert check(load(shorter)) == ()
    assert {path for path in taxi.folder.rglob("*") if path.is_file()} == before


def test_the_same_pipeline_by_tfx_command_line(taxi, fullpass, tmp_path):
    """Nothing has changed, so the run has the results of the run before; it alone is listed, and writes no metadata."""
    metadata = taxi.root / "metadata.sqlite"
    before, served, listed = metadata.read_bytes(), taxi.version(), read_runs(taxi.root, 50)
    env = {
        "FULLPASS_CONFIG": str(taxi.config),
        "HOME": str(tmp_path),
        "PATH": str(Path(sys.executable).parent) + ":/usr/bin:/bin",
    }
    local = Path(importlib.util.find_spec("fullpass.pipeline.local").origin)
    created = fullpass("tfx", "pipeline", "create", "--engine=local", f"--pipeline_path={local}", env=env)
    assert created.returncode == 0, created.stdout + created.stderr
    ran = fullpass("tfx", "run", "create", "--engine=local", "--pipeline_name=taxi", env=env)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert metadata.read_bytes() == before and taxi.version() == served
    assert {node["status"] for node in taxi.summary()["nodes"].values()} == {"cached"}
    assert [one.facts.outcome for one in read_runs(taxi.root, 50)] == ["success"] + [
        one.facts.outcome for one in listed
    ]
