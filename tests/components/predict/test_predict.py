"""Predictions for files of raw rows."""

import csv
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.components.evaluation.measure.score_rows import Scorer
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.predict.exported import export_folder, load_export
from fullpass.components.predict.predict import predict_tables
from fullpass.components.predict.tally import Tally
from fullpass.trainer.run_fn import run_fn
from tests.components.predict.predicted_rows import predict_file, read_back
from tests.trainer.conftest import to_examples, training_of

pytestmark = pytest.mark.integration
COLUMNS = ("x", "trip miles", "kind", "city", "tags", "note")


@pytest.fixture(scope="session")
def model(exported):
    return load_export(exported("binary").directory)


@pytest.fixture(scope="session")
def rows(exported):
    return exported("binary").prepared.rows["eval"][:25]


@pytest.fixture(scope="session")
def scores(exported, rows):
    """Returns the probability of "yes" from the signature for serialized examples."""
    loaded = tf.saved_model.load(str(exported("binary").directory))

    def of(names):
        examples = tf.constant(to_examples([{name: row[name] for name in names} for row in rows]))
        return loaded.signatures["serving_default"](examples=examples)["scores"].numpy()

    return of


def write_csv(path: Path, rows, names=COLUMNS) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *names])
        for number, row in enumerate(rows):
            writer.writerow([f"r{number}", *("NA" if row[name] is None else row[name] for name in names)])
    return path


def test_csv_to_json_lines(model, rows, scores, tmp_path):
    source = write_csv(tmp_path / "in.csv", rows)
    done = predict_file(model, str(source), str(tmp_path / "out.jsonl"))
    found = read_back([tmp_path / "out.jsonl"])
    assert (done.rows, done.bad, done.absent, done.quarantine) == (25, 0, ("position",), None)
    assert [row["id"] for row in found] == [f"r{number}" for number in range(25)]
    assert list(found[0]) == ["id", *COLUMNS, "prediction", "probability_no", "probability_yes", "bad_row"]
    assert {row["bad_row"] for row in found} == {None}
    np.testing.assert_allclose([row["probability_yes"] for row in found], scores(COLUMNS), rtol=1e-4)
    assert [row["prediction"] for row in found] == ["yes" if s > 0.5 else "no" for s in scores(COLUMNS)]


def test_texts_that_are_no_dates_are_counted_and_one_is_shown(model, rows, tmp_path):
    notes = ["2026-01-02", "30.03.2024", "2026-02-30", None, "March 3", *["2026-01-02"] * 19, "March 3"]
    source = write_csv(tmp_path / "in.csv", [{**row, "note": note} for row, note in zip(rows, notes, strict=True)])
    dates = {"note": ("%Y-%m-%d", "%d.%m.%Y"), "absent": ("%Y",)}
    dated = replace(model, training=replace(model.training, dates=dates))
    done = predict_file(dated, str(source), str(tmp_path / "out.jsonl"))
    why = "'2026-02-30' is no date in the format %Y-%m-%d or %d.%m.%Y."
    assert (done.bad, done.unread) == (0, {"note": (3, why)})
    assert f"Column 'note': 3 values are taken as missing: {why}" in done.notes()
    of_parts = Tally("in")
    for part in (done.unread, {"note": [2, "another"]}):
        of_parts.add(25, (), part)
    assert of_parts.unread == {"note": (5, why)}


def test_json_lines_with_vectors_to_parquet(model, rows, scores, tmp_path):
    names = (*COLUMNS, "position")
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({name: row[name] for name in names}) + "\n" for row in rows))
    done = predict_file(model, str(source), str(tmp_path / "out.parquet"))
    table = pq.read_table(tmp_path / "out.parquet")
    assert (done.rows, done.bad, done.absent) == (25, 0, ())
    np.testing.assert_allclose(table["probability_yes"].to_numpy(), scores(names), rtol=1e-4)
    assert table["position"].to_pylist() == [row["position"] for row in rows]


def test_parquet_to_csv(model, rows, scores, tmp_path):
    pq.write_table(pa.table({name: [row[name] for row in rows] for name in COLUMNS}), tmp_path / "in.parquet")
    predict_file(model, str(tmp_path / "in.parquet"), str(tmp_path / "out.csv"))
    found = read_back([tmp_path / "out.csv"])
    np.testing.assert_allclose([float(row["probability_yes"]) for row in found], scores(COLUMNS), rtol=1e-4)


def test_lines_of_which_none_is_json(model, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text("nonsense\nmore of it\n")
    with pytest.raises(UserError, match="none of its 2 rows can be used"):
        predict_file(model, str(source), str(tmp_path / "out.jsonl"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_script_that_ends_with_an_open_model_prints_nothing(model):
    script = f"import fullpass; model = fullpass.open_model({str(model.directory)!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Exception ignored" not in done.stderr


def retold(model, copy: Path, **source):
    """Returns the same model as if it were trained on a source with other settings."""
    shutil.copytree(model.directory, copy)
    description = next(copy.rglob("fullpass.json"))
    described = json.loads(description.read_text())
    state_file.write(description, {**described, "source": {**described["source"], **source}})
    return load_export(copy)


@pytest.mark.parametrize(
    ("source", "text", "same"),
    [
        ({}, "x,kind\n 0.5 , a \nNA,a\n,a\n", [{"x": 0.5}, {}, {"x": None}]),
        (
            {"encoding": "latin-1", "quoting": False},
            'x,kind,note\n0.5,a,5" café\n',
            [{"x": 0.5, "note": '5" café'}],
        ),
        ({"separator": ";", "decimal": ",", "missing_in": {"x": ["-9"]}}, "x;kind\n0,5;a\n-9,0;a\n", [{"x": 0.5}, {}]),
    ],
    ids=["as the planted rows", "decoded and quoted", "cut and read"],
)
def test_text_is_read_as_the_export_says_of_its_source(model, tmp_path, source, text, same):
    copied = retold(model, tmp_path / "model", **source)
    (tmp_path / "in.csv").write_text(text, encoding=source.get("encoding", "utf-8"))
    (table,) = predict_tables(copied, str(tmp_path / "in.csv"))
    (tmp_path / "same.jsonl").write_text("".join(json.dumps({"kind": "a", **row}) + "\n" for row in same))
    (expected,) = predict_tables(model, str(tmp_path / "same.jsonl"))
    assert table["probability_yes"] == expected["probability_yes"]
    if "note" in same[0]:
        assert table["note"] == expected["note"]


def test_a_regression_predicts_numbers(exported, rows, tmp_path):
    source = write_csv(tmp_path / "in.csv", rows)
    predict_file(load_export(exported("regression").directory), str(source), str(tmp_path / "o.csv"))
    found = read_back([tmp_path / "o.csv"])
    prices = np.array([row["price"] for row in rows])
    assert list(found[0])[-2:] == ["prediction", "bad_row"]
    assert np.corrcoef([float(row["prediction"]) for row in found], prices)[0, 1] > 0.9


METRICS_OF_QUANTILES = (
    "pinball",
    "interval_coverage",
    "interval_width",
    *(f"coverage[{level}]" for level in (0.1, 0.5, 0.7, 0.9)),
)


def test_quantiles_are_columns_of_their_own(planted, rows, tmp_path):
    """They are in the export, in the predictions, and in training.json with the share of labels below each."""
    prepared = planted("regression").of("x", "trip miles", "position")
    training = {"epochs": 12, "learning_rate": 0.02, "loss": {"kind": "quantile", "levels": [0.1, 0.5, 0.9]}}
    run_fn(prepared.fn_args(tmp_path, model={"kind": "mlp", "members": 2}, training=training))
    predict_file(
        load_export(tmp_path / "Format-Serving"), str(write_csv(tmp_path / "in.csv", rows)), str(tmp_path / "o.csv")
    )
    found = read_back([tmp_path / "o.csv"])
    quantiles = np.array([[float(row[f"quantile_{level}"]) for level in (0.1, 0.5, 0.9)] for row in found])
    assert (np.diff(quantiles, axis=1) > 0).all()
    assert [float(row["prediction"]) for row in found] == quantiles[:, 1].tolist()
    record = training_of(tmp_path)
    shares = {level: record["history"][f"val_coverage_{level}"][record["best_epoch"] - 1] for level in (0.1, 0.5, 0.9)}
    loaded = tf.saved_model.load(str(tmp_path / "Format-Serving"))
    records = sum(prepared.records("raw", "eval"), [])
    quantiles = loaded.signatures["serving_default"](examples=tf.constant(records))["quantiles"].numpy()
    prices = np.array([tf.train.Example.FromString(r).features.feature["price"].float_list.value[0] for r in records])
    assert list(shares.values()) == pytest.approx((prices[:, None] <= quantiles).mean(axis=0), abs=0.01)
    errors, levels = prices[:, None] - quantiles, np.array([0.1, 0.5, 0.9])
    losses = np.where(errors > 0, levels * errors, (levels - 1) * errors).mean(axis=0)
    best = [record["history"][f"val_pinball_{level}"][record["best_epoch"] - 1] for level in (0.1, 0.5, 0.9)]
    assert best == pytest.approx(losses, rel=0.01)
    measured = evaluated(str(tmp_path / "Format-Serving"), records, METRICS_OF_QUANTILES)
    assert measured["pinball"] == pytest.approx(losses.mean(), rel=1e-5)
    inside = (quantiles[:, 0] <= prices) & (prices <= quantiles[:, 2])
    assert measured["interval_coverage"] == pytest.approx(inside.mean(), rel=1e-6)
    for column, level in enumerate((0.1, 0.5, 0.9)):
        assert measured[f"coverage[{level}]"] == pytest.approx((prices <= quantiles[:, column]).mean(), rel=1e-6)
    assert np.isnan(measured["coverage[0.7]"]), "the model has no such quantile"
    assert measured["interval_width"] == pytest.approx((quantiles[:, 2] - quantiles[:, 0]).mean(), rel=1e-5)


def evaluated(export, records, metrics):
    """Returns metrics on serialized examples, computed as in the Evaluator."""
    one = SliceAccumulator(metrics, (), None, 1)
    state = one.add(one.start(), Scorer([export], {})(tf.constant(records)))
    return {name: values[0] for name, values in one.measure(state).values[0].items()}


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_effects_add_up_to_the_score(exported, rows, tmp_path, task):
    model = load_export(exported(task).directory)
    names = [name for name in COLUMNS if name != "city"]
    path = str(write_csv(tmp_path / "in.csv", rows, names))
    found = pa.concat_tables(predict_tables(model, path, explained=True)).to_pylist()
    for row in found:
        total = row["base"] + sum(value for name, value in row.items() if name.startswith("effect_"))
        scores = [value for name, value in row.items() if name.startswith("probability_")]
        score = row["prediction"] if task == "regression" else scores[1] if task == "binary" else max(scores)
        assert total == pytest.approx(score, rel=1e-5, abs=1e-5)
        assert row["effect_city"] == 0, "the input has no such column"
    assert len({row["base"] for row in found}) <= (3 if task == "multiclass" else 1)
    if task == "regression":  # price is 1000 + 200 x + 50 trip miles
        effects, x = [row["effect_x"] for row in found], [float(row["x"]) for row in found if row["x"] != "NA"]
        effects = [effect for effect, row in zip(effects, found, strict=True) if row["x"] != "NA"]
        assert np.corrcoef(effects, x)[0, 1] > 0.95


def predict_text(model, tmp_path, text: str, name: str = "in.csv"):
    (tmp_path / name).write_text(text)
    return predict_file(model, str(tmp_path / name), str(tmp_path / "out.csv"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x,kind\noops,b\n", r"in.csv: none of its 1 rows.*column 'x': not a number.*in.csv, row 2: 'oops'"),
        ("x,kind\n1e99,a\n", r"in.csv: none of its 1 rows.*column 'x': outside the range of float32.*row 2: '1e99'"),
        ("kinds,y\na,1\n", r"none of the columns that the model reads is in the input.*The model reads: city, kind"),
        ("x,prediction\n1,2\n", r"column 'prediction' has the name of a prediction"),
        ("x,kind\n", r"no rows"),
    ],
)
def test_input_that_cannot_be_used(model, tmp_path, text, expected):
    with pytest.raises(UserError, match=f"(?s){expected}"):
        predict_text(model, tmp_path, text)
    assert [file.name for file in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_bad_rows_are_kept_aside_and_all_others_are_answered(model, tmp_path, suffix):
    good = "x,kind,city\n0.5,a,city 1\n2,b,city 2\n"
    (tmp_path / "good.csv").write_text(good)
    (tmp_path / "in.csv").write_text(good.replace("2,b", "oops,c,city 3\n3\n2,b") + "1,2,3,4\n")
    done = predict_file(model, str(tmp_path / "in.csv"), str(tmp_path / f"out.{suffix}"))
    assert (done.rows, done.bad, done.quarantine) == (5, 3, str(tmp_path / f"out.{suffix}.quarantine.jsonl"))

    found = read_back([tmp_path / f"out.{suffix}"])
    assert [row["kind"] or None for row in found] == ["a", "c", None, "b", None]
    assert [row["bad_row"] or None for row in found] == [
        None,
        "row 3: column 'x': not a number",
        "row 4: 1 cells, expected 3",
        None,
        "row 6: 4 cells, expected 3",
    ]
    assert [bool(row["prediction"]) for row in found] == [True, False, False, True, False]
    (same,) = predict_tables(model, str(tmp_path / "good.csv"))
    probabilities = [float(row["probability_yes"]) for row in found if row["prediction"]]
    np.testing.assert_allclose(probabilities, same["probability_yes"].to_numpy(), rtol=1e-6)

    file = str(tmp_path / "in.csv")
    assert read_back([tmp_path / f"out.{suffix}.quarantine.jsonl"]) == [
        {"file": file, "row": 3, "column": "x", "reason": "not a number", "text": "oops"},
        {"file": file, "row": 4, "column": None, "reason": "1 cells, expected 3", "text": "3"},
        {"file": file, "row": 6, "column": None, "reason": "4 cells, expected 3", "text": "1,2,3,4"},
    ]
    other = tmp_path / ("out.csv" if suffix != "csv" else "out.jsonl")
    predict_file(model, str(tmp_path / "good.csv"), str(other))
    assert (tmp_path / f"out.{suffix}.quarantine.jsonl").exists(), "an output of another format has its own"
    notes = "\n".join(done.notes())
    assert "3 of 5 rows have no prediction; they are in" in notes and "row 3: 'oops'" in notes

    predict_file(model, str(tmp_path / "good.csv"), str(tmp_path / f"out.{suffix}"))
    assert not (tmp_path / f"out.{suffix}.quarantine.jsonl").exists(), "it was that of another output"


def test_a_vector_of_another_length_is_named(model, tmp_path):
    done = predict_text(model, tmp_path, '{"position": [1, 2]}\n{"position": [1, 2, 3]}\n', "in.jsonl")
    assert done.bad == 1 and read_back([tmp_path / "out.csv"])[0]["prediction"]
    (bad,) = read_back([tmp_path / "out.csv.quarantine.jsonl"])
    assert (bad["row"], bad["column"], bad["reason"]) == (2, "position", "not 2 numbers long")
    assert bad["text"] == "[1, 2, 3]"


def test_the_newest_whole_version_is_taken(exported, tmp_path):
    for version in ("2", "10"):
        shutil.copytree(exported("binary").directory, tmp_path / version)
    (tmp_path / "11").mkdir()
    (tmp_path / ".pending-12").mkdir()
    shutil.copytree(exported("binary").directory, tmp_path / "rolled_back-13")
    assert export_folder(tmp_path) == tmp_path / "10"
    assert export_folder(tmp_path / "2") == tmp_path / "2"


def test_a_run_keeps_its_model_in_a_folder_of_the_artifact(exported, tmp_path):
    """The summary of a run names the folder of the artifact."""
    shutil.copytree(exported("binary").directory, tmp_path / "Format-Serving")
    assert export_folder(tmp_path) == tmp_path / "Format-Serving"


def test_folders_without_a_model(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such folder.*give the folder"):
        export_folder(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no model. Expected a saved_model.pb"):
        export_folder(tmp_path)
    tf.saved_model.save(tf.Module(), str(tmp_path / "other"))
    with pytest.raises(UserError, match="a SavedModel that Fullpass did not write"):
        load_export(tmp_path / "other")
