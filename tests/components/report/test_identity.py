"""The report says who it is: its date, run, versions, configuration and data."""

import json
from datetime import datetime, timedelta

from fullpass.components.ingest.writing.manifest import FileCount, Manifest
from fullpass.components.mlmd_values import RecordedArtifact
from fullpass.components.report.identity import identity
from fullpass.trainer.export.run_provenance import RUN_FACTS_VARIABLE

CODE = {"fullpass": "0.1.0", "commit": "5b4c563-dirty", "source": "abc", "user": "def", "line": "TFX 1.16.0"}
THEN = {"run": "20260101-000000-000000", "config": {"hash": "1111", "yaml": "name: old"}, "code": CODE}
NOW = {"run": "20260102-000000-000000", "config": {"hash": "2222", "yaml": "name: taxi"}, "code": CODE}


def manifest(*counts):
    files = tuple(FileCount(path, read, {"train": read - bad}, bad) for path, read, bad in counts)
    return Manifest(files=tuple(f.path for f in files), quarantined={}, bytes_read=0, by_file=files)


def spans(*labels):
    return [RecordedArtifact("/x", "/x", {"label": label}) for label in labels]


def test_a_report_names_its_run_and_the_run_that_trained_its_model(tmp_path, monkeypatch):
    facts = tmp_path / "run.json"
    facts.write_text(json.dumps(NOW | {"run_id": NOW["run"], "occasion": None}))
    monkeypatch.setenv(RUN_FACTS_VARIABLE, str(facts))
    read = [manifest(("a.csv", 5_000, 3)), manifest(("b.csv", 7, 0), ("s3://key:secret@bucket/c.csv", 8, 0))]
    found = identity({"model": {"lineage": THEN}}, spans("2026-01-01", "2026-01-02"), read)
    (made, when), *others = found.facts
    assert made == "made"
    assert abs(datetime.strptime(when, "%Y-%m-%d %H:%M %z") - datetime.now().astimezone()) < timedelta(minutes=2)
    assert others == [
        ("run", "20260102-000000-000000"),
        ("model", "trained in run 20260101-000000-000000, configuration 1111"),
        ("Fullpass", "0.1.0, commit 5b4c563-dirty, source abc, own code def, with TFX 1.16.0"),
        ("configuration", "2222"),
        ("spans", "2026-01-01 to 2026-01-02, 2"),
    ]
    assert found.yaml == "name: taxi" and found.left_out == 0
    assert found.files[:2] == (("a.csv", "2026-01-01", "5,000", "3"), ("b.csv", "2026-01-02", "7", "0"))
    assert "secret" not in found.files[2][0]


def test_without_facts_of_the_run_those_of_the_training_count(monkeypatch):
    monkeypatch.setenv(RUN_FACTS_VARIABLE, "")
    found = identity({"model": {"lineage": THEN}}, spans("0"), [manifest(*[(f"{i}.csv", 1, 0) for i in range(205)])])
    assert dict(found.facts)["run"] == THEN["run"] and not {"spans", "model"} & {name for name, _ in found.facts}
    assert (found.left_out, len(found.files), found.files[0][:2]) == (5, 200, ("5.csv", ""))
    assert [name for name, _ in identity({}, [], []).facts] == ["made"]
