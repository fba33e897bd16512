"""What `init` refuses, repairs and asks, and the label that the rows to predict lack."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.checks import check
from fullpass.pipeline.authoring.data_check.data_check import check_data
from fullpass.pipeline.authoring.init.init import init
from fullpass.pipeline.authoring.loading.load import Finding, load
from tests.pipeline.authoring.tables import write_csv as write

ROWS = 1500


@pytest.mark.parametrize(
    ("ending", "bad", "good"),
    [
        ("csv", "1,started,x,x,x", "1,2,0"),
        ("jsonl", '{"a": 1, "b": ', '{"a": 1, "b": 2, "y": 0}'),
    ],
)
def test_more_bad_rows_than_one_in_a_hundred_are_the_users_decision(tmp_path, ending, bad, good):
    header = ["a,b,y"] if ending == "csv" else []
    lines = [*header, *[bad if i % 20 == 7 else good.replace("0", str(i % 2), 1) for i in range(400)]]
    data = tmp_path / f"f.{ending}"
    data.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError) as error:
        init(str(data), output=str(tmp_path / "p.yaml"), label="y")
    message = str(error.value)
    assert "20 of 400 rows (5.0%) cannot be read" in message
    assert f"f.{ending}, row {9 if header else 8}: " in message  # the header is row 1
    assert bad[:12] in message
    assert "give --bad-rows 0.06: that writes data.bad_rows: {max_fraction: 0.06}" in message
    assert not (tmp_path / "p.yaml").exists()
    lines[300] = lines[300].replace("2", "3")
    data.write_text("\n".join(lines) + "\n")
    written = init(str(data), output=str(tmp_path / "p.yaml"), label="y", bad_rows=0.06)
    assert load(written.file).config.data.bad_rows.max_fraction == 0.06
    assert "bad rows: 5.00% of rows cannot be read; a run sets them aside" in written.summary


def test_slices_are_of_raw_columns(tmp_path, random):
    columns = {"x": random.normal(size=ROWS), "fee": random.choice(["$0", "$1"], ROWS)}
    columns["y"] = random.integers(0, 2, ROWS)
    init(str(write(tmp_path / "a.csv", columns)), output=str(tmp_path / "p.yaml"), label="y")
    config = load(tmp_path / "p.yaml").config
    assert config.evaluation.slices == () and config.features["fee"].format == "$1234.5"


def test_what_a_run_would_refuse_is_left_out(tmp_path, random, monkeypatch):
    data = write(tmp_path / "a.csv", {"x": random.normal(size=ROWS), "z": ["u", "v", "w"] * 500, "y": [0, 1] * 750})

    def refused(loaded):
        if "z" in loaded.config.features:
            yield Finding(("features", "z", "vocabulary"), "not today")
        if loaded.config.evaluation.slices:
            yield Finding(("evaluation", "slices", 0), "no slices")

    monkeypatch.setattr(check, "CHECKS", (refused,))
    written = init(str(data), output=str(tmp_path / "p.yaml"), label="y")
    config = load(written.file).config
    assert (set(config.features), config.evaluation.slices) == ({"x"}, ())
    assert "left out: z (a run would refuse it: not today)" in written.summary


@pytest.mark.parametrize(
    ("data", "other", "given"),
    [
        ("train.csv", "test.csv", "train.csv"),
        ("titanic_train.csv", "titanic_test.csv", "."),
        ("labeled.csv", "new.csv", "labeled.csv"),
        ("train.jsonl", "test.jsonl", "train.jsonl"),
    ],
)
def test_the_label_is_the_column_that_the_rows_to_predict_lack(tmp_path, random, data, other, given):
    columns = {"id": range(ROWS), "survived": random.integers(0, 3, ROWS), "kind": random.integers(1, 4, ROWS)}
    columns["fare"] = random.random(ROWS).round(3)
    for path, names in ((data, columns), (other, [n for n in columns if n != "survived"])):
        (tmp_path / "d" / path).parent.mkdir(parents=True, exist_ok=True)
        table = pd.DataFrame({name: columns[name] for name in names})
        if path.endswith("jsonl"):
            table.to_json(tmp_path / "d" / path, orient="records", lines=True)
        else:
            table.to_csv(tmp_path / "d" / path, index=False)
    summary = init(str(tmp_path / "d" / given), output=str(tmp_path / "p.yaml")).summary
    assert load(tmp_path / "p.yaml").config.label.name == "survived"
    assert f"{Path(other).name} lacks this column" in summary[1]


def test_columns_that_the_rows_to_predict_lack_are_no_features(tmp_path, random):
    """As in bike sharing: test lacks casual, registered and count."""
    casual, registered = random.poisson(20, ROWS), random.poisson(90, ROWS)
    known = {"day": range(ROWS), "heat": random.normal(size=ROWS), "wind": random.normal(size=ROWS)}
    known |= {"rain": random.normal(size=ROWS)}
    write(tmp_path / "train.csv", {**known, "casual": casual, "registered": registered, "count": casual + registered})
    write(tmp_path / "test.csv", known)
    text = init(str(tmp_path / "train.csv"), output=str(tmp_path / "p.yaml"), label="count").text
    config = load(tmp_path / "p.yaml").config
    assert config.label.name == "count" and set(config.features) == {"heat", "wind", "rain"}
    assert "# test.csv lacks it, like the label" in text


def test_a_label_of_some_files_only_names_the_file(tmp_path, random):
    (tmp_path / "d").mkdir()
    write(tmp_path / "d" / "a.csv", {"x": random.normal(size=ROWS), "z": [1, 2] * 750, "ok": [0, 1] * 750})
    write(tmp_path / "d" / "b.csv", {"x": random.normal(size=ROWS), "z": [1, 2] * 750})
    for label in (None, "ok"):
        with pytest.raises(UserError, match=r"ok.* is in 1 of 2 files only.*fullpass init .*a.csv --label ok"):
            init(str(tmp_path / "d"), output=str(tmp_path / "p.yaml"), label=label)


@pytest.mark.integration
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_a_row_that_repeats_thousands_of_times_makes_splits_uneven(tmp_path, random, task):
    """Equal rows stay in one split by hash: `init` and `check --data` say so, with both shares."""
    rows, copies = 14_000, 6_000
    x, y = random.normal(size=rows).round(3), (random.random(rows) < 0.06).astype(int)
    x[:copies], y[:copies] = 9.5, 0
    if task == "regression":
        y = np.where(np.arange(rows) < copies, 90.0, random.normal(50, 5, rows).round(2))
    order = random.permutation(rows)
    data = write(tmp_path / "a.csv", {"x": x[order], "unread": ["u"] * rows, "y": y[order]})
    written = init(str(data), output=str(tmp_path / "p.yaml"), label="y", task=task)
    told = next(line for line in written.summary if "beyond chance" in line)
    assert "in split validation and" in told and "6,000 of 14,000 rows looked at are the same" in told
    assert ("{method: stratified, column: y, ratios: {train: 8, validation: 1, eval: 1}}" in told) == (task == "binary")
    problem = next(p for p in check_data(load(written.file)).problems if "beyond chance" in p.message)
    assert problem.path == "data.split" and problem.message in told
    if task == "binary":
        file = tmp_path / "p.yaml"
        file.write_text(file.read_text().replace("method: hash,", "method: stratified, column: y,"))
        assert not [p for p in check_data(load(file)).problems if "beyond chance" in p.message]


def test_the_derived_column_of_a_left_out_feature_is_a_comment(tmp_path, random, monkeypatch):
    names = ("from_lat", "from_lon", "to_lat", "to_lon")
    data = write(tmp_path / "a.csv", {n: random.uniform(-80, 80, ROWS) for n in names} | {"y": [0, 1] * (ROWS // 2)})

    def refused(loaded):
        if "distance_km" in loaded.config.features:
            yield Finding(("features", "distance_km"), "not today")

    with monkeypatch.context() as patched:
        patched.setattr(check, "CHECKS", (refused,))
        text = init(str(data), output=str(tmp_path / "p.yaml"), label="y").text
    derived = [line.strip() for line in text.splitlines() if "haversine(" in line]
    assert len(derived) == 1 and derived[0].startswith("# distance_km:")
    assert not [p for p in check.require(load(tmp_path / "p.yaml")) if p.path.startswith("data.derive")]
    (tmp_path / "p.yaml").write_text(text.replace("# derive:", "derive:").replace("# distance_km:", "distance_km:"))
    loaded = load(tmp_path / "p.yaml")
    assert "distance_km" in loaded.config.data.derive and "distance_km" in loaded.config.features
    assert not [p for p in check.require(loaded) if p.severity == "error"]


def test_written_numbers_that_are_left_out_are_one_entry_each(tmp_path, random):
    gone = [f"${1 + n % 2},000.00" for n in range(600)]
    table = {"x": random.normal(size=600), "gives": gone, "again": gone, "y": [n % 2 for n in range(600)]}
    write(tmp_path / "a.csv", table)
    text = init(str(tmp_path / "a.csv"), output=str(tmp_path / "p.yaml"), label="y").text
    left_out = [line.strip() for line in text.splitlines() if line.strip().startswith(("# gives:", "# again:"))]
    assert len(left_out) == 2 and all('{type: number, format: "$1,234.5"' in line for line in left_out), text
    (tmp_path / "p.yaml").write_text(text.replace("# gives:", "gives:"))
    loaded = load(tmp_path / "p.yaml")
    assert loaded.config.features["gives"].format == "$1,234.5" and loaded.config.data.derive == {}
    assert not [p for p in check.require(loaded) if p.severity == "error"]


def test_strong_columns_stay_with_a_question_unless_they_give_the_label_away(tmp_path, random):
    """Sensors that tell a state apart nearly always are honest; a column that tells it exactly holds it."""
    rows = 3000
    state = random.integers(0, 2, rows)
    strong = {f"sensor_{i}": (4.2 * state + random.normal(0, 1.0 + 0.05 * i, rows)).round(4) for i in range(4)}
    weak = {f"sensor_{i}": (state + random.normal(0, 2, rows)).round(4) for i in range(4, 9)}
    fine = np.where(state == 1, random.uniform(10, 90, rows).round(3), 0)
    columns = {**strong, **weak, "fine": fine, "state": np.where(state == 1, "on", "off")}
    written = init(str(write(tmp_path / "a.csv", columns)), output=str(tmp_path / "p.yaml"), label="state")
    features = load(tmp_path / "p.yaml").config.features
    assert set(features) == {*strong, *weak}
    assert [line for line in written.summary if line.startswith("left out")] == [
        "left out: fine (gives the label away: AUC 1.00 alone)"
    ]
    asked = [line for line in written.summary if line.startswith("check: sensor")]
    assert len(asked) == len(strong) and all("is it known at serving time?" in line for line in asked)
    assert written.text.count("CHECK: a strong predictor, AUC 1.00 alone") == sum("AUC 1.00" in line for line in asked)
