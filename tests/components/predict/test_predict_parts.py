"""Predictions of parts of files on Beam: the rows of a single process, in shards of a folder."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers import lines
from fullpass.components.predict.exported import load_export
from fullpass.components.predict.predict_parts import Batch, predict_parts
from fullpass.pipeline.config import BeamConfig
from fullpass.pipeline.running.beam_args import prediction_args
from tests.components.predict.predicted_rows import predict_file, read_back

pytestmark = pytest.mark.integration
HERE = lambda size: prediction_args(BeamConfig(), data_bytes=size)  # noqa: E731


@pytest.fixture(scope="session")
def export(exported) -> str:
    return str(exported("binary").directory)


@pytest.fixture
def files(exported, tmp_path, monkeypatch) -> Path:
    """A folder of two files, the first of which is cut into parts; a part has a bad row."""
    rows = exported("binary").prepared.rows["eval"][:120]
    folder = tmp_path / "rows"
    folder.mkdir()
    for name, some in (("a.csv", rows[:100]), ("b.csv", rows[100:])):
        with (folder / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "x", "kind", "city", "note"])
            for number, row in enumerate(some):
                cells = ["NA" if row[key] is None else row[key] for key in ("x", "kind", "city", "note")]
                writer.writerow([f"{name}{number}", *cells] if number != 70 else ["bad", "oops", "a", "", ""])
                if number == 80:
                    writer.writerow(["short"])
    monkeypatch.setattr(lines, "PART_BYTES", (folder / "a.csv").stat().st_size // 5)
    monkeypatch.setattr("fullpass.components.ingest.read_tasks.PART_BYTES", 1)
    return folder


@pytest.mark.parametrize(
    "suffix", [*(pytest.param(suffix, marks=pytest.mark.long) for suffix in ("parquet", "csv")), "jsonl"]
)
def test_shards_hold_the_rows_of_a_single_process_in_their_order(export, files, tmp_path, suffix):
    output, file = tmp_path / f"parts.{suffix}", tmp_path / f"one.{suffix}"
    done = predict_parts(Batch(export, str(files), str(output), {}), HERE)
    same = predict_file(load_export(Path(export)), str(files), str(file))
    shards = sorted(output.glob(f"part-*.{suffix}"))
    assert len(shards) > 3
    found, expected = read_back(shards), read_back([file])
    assert [row["id"] for row in found if row["id"]][:2] == ["a.csv0", "a.csv1"] and len(found) == 121
    for row, other in zip(found, expected, strict=True):
        scores = [float(one.pop("probability_yes") or -1) for one in (row, other)]
        del row["probability_no"], other["probability_no"]
        # Batches of other sizes add in another order: a logit of 3.5 may differ by some units of 2.4e-7 in float32.
        assert row == other and scores[0] == pytest.approx(scores[1], rel=1e-5)
    assert (done.rows, done.bad, done.absent, done.reasons) == (same.rows, same.bad, same.absent, same.reasons)
    assert read_back(output.glob("_bad_rows-*.jsonl")) == read_back([Path(same.quarantine)])
    assert json.loads((output / "_SUCCESS").read_text()) == {
        "rows": 121, "bad_rows": 2, "model": export, "input": str(files),
    }  # fmt: skip
    assert {path.name.partition("-")[0] for path in output.iterdir()} == {"part", "_bad_rows", "_SUCCESS"}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["rows", output.name, file.name, f"{file.name}.quarantine.jsonl"]
    )


def test_an_output_stays_until_the_next_one_is_complete(export, files, tmp_path):
    output = tmp_path / "parts.jsonl"
    predict_parts(Batch(export, str(files / "b.csv"), str(output), {}), HERE)
    (tmp_path / "bad.csv").write_text("x,kind\noops,a\n")
    with pytest.raises(UserError, match=r"(?s)none of its 1 rows.*column 'x': not a number"):
        predict_parts(Batch(export, str(tmp_path / "bad.csv"), str(output), {}), HERE)
    assert len(read_back(output.glob("part-*"))) == 20 and sorted(os.listdir(tmp_path)) == [
        "bad.csv", "parts.jsonl", "rows",
    ]  # fmt: skip
    predict_parts(Batch(export, str(files / "a.csv"), str(output), {}), HERE)
    assert len(read_back(output.glob("part-*"))) == 101


def test_a_folder_of_other_files_is_not_replaced(export, files, tmp_path):
    shutil.copytree(files, tmp_path / "mine.csv")
    (tmp_path / "years.csv" / "year=2026").mkdir(parents=True)
    (tmp_path / "spark.csv").mkdir()
    for name in ("_SUCCESS", "part-0"):  # Spark's _SUCCESS is empty
        (tmp_path / "spark.csv" / name).touch()
    (tmp_path / "file.csv").touch()
    fsspec.filesystem("memory").pipe("/mine.csv/a.csv", b"")
    for output in ("mine.csv", "years.csv", "spark.csv", "file.csv", "memory://mine.csv"):
        path = output if "://" in output else str(tmp_path / output)
        with pytest.raises(UserError, match="exists and is not the output of an earlier prediction"):
            predict_parts(Batch(export, str(files), path, {}), HERE)
    assert sorted(os.listdir(tmp_path / "mine.csv")) == ["a.csv", "b.csv"]
    with pytest.raises(UserError, match="out: cannot tell the format"):
        predict_parts(Batch(export, str(files), "out", {}), HERE)


def test_columns_that_differ_between_parts_are_refused_in_a_table(export, files, tmp_path):
    (files / "a.csv").write_text("x,kind\n1,a\n")
    (files / "b.csv").write_text("x,kind,more\n1,a,b\n")
    with pytest.raises(UserError, match="not every part has the columns more with the same type"):
        predict_parts(Batch(export, str(files), str(tmp_path / "out.csv"), {}), HERE)
    predict_parts(Batch(export, str(files), str(tmp_path / "out.jsonl"), {}), HERE)
    assert ["more" in row for row in read_back((tmp_path / "out.jsonl").glob("part-*"))] == [False, True]


def test_model_and_output_at_addresses(export, files, tmp_path):
    """The newest version is taken; what an earlier output left is removed."""
    memory = fsspec.filesystem("memory")
    memory.put(export, "/models/taxi/10", recursive=True)
    memory.pipe({"/models/taxi/9/saved_model.pb": b"", "/models/taxi/11/variables/x": b"", "/out.jsonl/part-9": b""})
    batch = Batch("memory://models/taxi", str(files / "b.csv"), "memory://out.jsonl", {})
    assert predict_parts(batch, HERE).rows == 20
    names = sorted(path.rsplit("/", 1)[1] for path in memory.ls("/out.jsonl", detail=False))
    assert names == ["_SUCCESS", "part-0000000-0000000.jsonl"]
    found = list(map(json.loads, memory.cat("/out.jsonl/part-0000000-0000000.jsonl").splitlines()))
    predict_file(load_export(Path(export)), str(files / "b.csv"), str(tmp_path / "one.jsonl"))
    assert found == read_back([tmp_path / "one.jsonl"]) and len(found) == 20
    with pytest.raises(UserError, match="memory://models: no model"):
        predict_parts(Batch("memory://models", str(files), "memory://out.jsonl", {}), HERE)


@pytest.mark.long
def test_the_command_line_predicts_in_processes(export, files, tmp_path):
    command = [sys.executable, "-m", "fullpass", "predict", export, str(files), "--runner", "direct"]
    processes = ["--beam", "direct_num_workers=2", "--beam", "direct_running_mode=multi_processing"]
    done = subprocess.run(
        [*command, *processes, "-o", str(tmp_path / "out.csv")], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"119 rows predicted, in {tmp_path}/out.csv\n"
    assert "2 of 121 rows have no prediction" in done.stderr
    refused = subprocess.run([*command, *processes], capture_output=True, text=True)
    assert refused.returncode == 2 and "--runner writes a folder" in refused.stderr
