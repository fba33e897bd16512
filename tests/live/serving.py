"""`make check-serving`: an export that Java loads gives the predictions of `fullpass predict`.

TensorFlow for Java replaces a model server. It has no Python, it uses the C++ SavedModel loader of TensorFlow Serving,
and request and response have the columnar format of Serving's REST API.
"""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.servers import REPOSITORY, needed

PROGRAM = Path(__file__).with_name("Predict.java")


@pytest.fixture(scope="module")
def export(tmp_path_factory) -> Path:
    """A copy of the export in another folder than its original one."""
    given = needed("EXPORT", "Give the folder of an exported model; without, the taxi example is trained for one.")
    return Path(shutil.copytree(given, tmp_path_factory.mktemp("moved") / "model"))


@pytest.fixture(scope="module")
def described(export) -> dict[str, Any]:
    """The description of the export, which lists its columns."""
    return json.loads((export / "assets.extra" / "fullpass.json").read_text())


@pytest.fixture(scope="module")
def rows(export, described) -> list[dict[str, Any]]:
    """The sample requests of the export, plus one row per column in which that column is missing."""
    text = (export / "assets.extra" / "requests.jsonl").read_text()
    samples = [json.loads(line) for line in text.splitlines()]
    holes = [{**samples[0], column["name"]: None} for column in described["columns"]]
    return [*samples, *holes]


def columnar(described: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Returns rows as `inputs` of a request: NaN for a missing number, "" for a missing text."""
    inputs = {}
    for column in described["columns"]:
        absent: Any = "" if column["type"] == "string" else math.nan
        if column["type"] == "vector":
            absent = [math.nan] * column["width"]
        inputs[column["key"]] = [absent if row.get(column["name"]) is None else row[column["name"]] for row in rows]
    return inputs


def ask_java(export: Path, inputs: dict[str, list[Any]], folder: Path) -> dict[str, list[Any]]:
    """Returns the outputs of the export in Java."""
    jars = needed("TENSORFLOW_JAVA", "Give the folder with the jars of TensorFlow for Java 1.0, and of Gson.")
    (folder / "request.json").write_text(json.dumps({"signature_name": "serving_raw", "inputs": inputs}))
    files = [str(folder / name) for name in ("request.json", "answer.json")]
    command = ["java", "-Xmx1g", "-cp", f"{jars}{os.sep}*", str(PROGRAM), str(export), *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "answer.json").read_text())["outputs"]


def predict(export: Path, rows: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Returns the columns that `fullpass predict` adds to the rows."""
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    command = [sys.executable, "-m", "fullpass", "predict", str(export), str(folder / "rows.jsonl")]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_java_gives_the_predictions_that_fullpass_gives(export, described, rows, tmp_path):
    answers = ask_java(export, columnar(described, rows), tmp_path)
    expected = predict(export, rows, tmp_path)
    assert len(answers["prediction"]) == len(expected) == len(rows) > 3
    if described["task"] == "regression":
        assert answers["prediction"] == pytest.approx([row["prediction"] for row in expected], rel=1e-5)
        return
    assert answers["prediction"] == [str(row["prediction"]) for row in expected]
    for n, label in enumerate(described["classes"]):
        given = [probabilities[n] for probabilities in answers["probabilities"]]
        assert given == pytest.approx([row[f"probability_{label}"] for row in expected], rel=1e-5, abs=1e-6)


def test_an_empty_list_is_a_column_that_is_missing_in_every_row(export, described, rows, tmp_path):
    first = described["columns"][0]
    inputs = columnar(described, rows)
    without = columnar(described, [{**row, first["name"]: None} for row in rows])
    answers = ask_java(export, {**inputs, first["key"]: []}, tmp_path)
    assert answers["scores"] == ask_java(export, without, tmp_path)["scores"]
