"""The page of the data: shares and means that pandas counts, planted differences and leaks, and hostile text."""

import json

import numpy as np
import pandas as pd
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fullpass.components.data_gate.distribution import ATOMS
from fullpass.components.pages import vega
from fullpass.pipeline.api.pipeline import Pipeline
from fullpass.pipeline.authoring.checks.check import load_checked
from fullpass.pipeline.authoring.data_page.cells import CellReading
from fullpass.pipeline.authoring.data_page.pictures import OTHERS, picture
from fullpass.pipeline.authoring.profile.strength import Target
from fullpass.pipeline.cli import app
from tests.components.pages.test_vega import Elements
from tests.pipeline.authoring.tables import values_of, write_csv

ROWS = 2000
HOSTILE = "</script><img src=x onerror=alert(1)>"
YAML = """
name: trips
data:
  source: {format: csv, path: data.csv, missing: ["", "?"]}
  split: {method: column, column: part, values: {train: [a], eval: [b]}}
label: {name: tipped, task: binary}
features:
  fare: number
  zone: {type: category, vocabulary: {top_k: 50}}
  day: date
  note: text
  tags: {type: category, separator: "|"}
"""


def trips(seed=5, rows=ROWS):
    random = np.random.default_rng(seed)
    fare = np.where(random.random(rows) < 0.1, "?", random.gamma(2, 8, rows).round(2).astype(str))
    tipped = random.integers(0, 2, rows)
    return {
        "fare": fare,
        "zone": random.choice(["north", "south", HOSTILE], rows, p=[0.6, 0.3, 0.1]),
        "day": np.datetime64("2024-01-01") + random.integers(0, 200, rows),
        "note": [
            " ".join(random.choice(["late", "fast", "rude", "clean"], random.integers(1, 9))) for _ in range(rows)
        ],
        "tags": random.choice(["x|y", "x", "", "z|x"], rows),
        "paid": tipped + 10,
        "trip_id": np.arange(rows) + 1000,
        "part": random.choice(["a", "b"], rows, p=[0.8, 0.2]),
        "tipped": tipped,
    }


def pipeline(folder, columns=None):
    write_csv(folder / "data.csv", columns or trips())
    (folder / "p.yaml").write_text(YAML)
    return Pipeline.of(load_checked(folder / "p.yaml"))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return pipeline(tmp_path_factory.mktemp("trips")).data_page()


def bars(page, column):
    """Returns the bars of a column as a table."""
    return pd.DataFrame(next(one for one in page.columns if one.name == column).spec["data"]["values"])


def test_bars_are_the_shares_and_the_mean_labels_that_pandas_counts(page):
    table = pd.DataFrame(trips()).replace({"?": None, "": None})
    zones = bars(page, "zone").set_index("value")
    for zone, rows in table.groupby("zone"):
        assert zones.loc[zone, "share"] == pytest.approx(len(rows) / ROWS)
        assert zones.loc[zone, "label"] == pytest.approx(rows.tipped.mean())
    fares, fare = bars(page, "fare"), table.fare.astype(float)
    assert fares.share.sum() == pytest.approx(fare.notna().mean())
    inner = fares.iloc[3]
    within = (fare >= inner["from"]) & (fare < inner["to"])
    assert inner.share == pytest.approx(within.mean()) and inner.label == pytest.approx(table.tipped[within].mean())
    tags = bars(page, "tags").set_index("value")
    assert tags.share.to_dict() == pytest.approx((table.tags.str.get_dummies("|").mean()).to_dict())


def test_a_column_says_how_it_is_read_and_what_it_gives_away(page):
    found = {one.name: one for one in page.columns}
    assert page.columns[0].name == "tipped" and page.columns[0].is_label
    assert found["zone"].readers == (("zone: {type: category, vocabulary: {top_k: 50}}", ""),)
    assert found["trip_id"].kind == "id" and found["trip_id"].spec is None
    assert found["paid"].tells == 1 and "may hold the label" in found["paid"].doubt
    assert found["fare"].missing == pytest.approx((np.mean(trips()["fare"] == "?"),)) and not found["fare"].doubt
    assert page.sides == {part: int(np.sum(trips()["part"] == key)) for part, key in (("train", "a"), ("eval", "b"))}


def test_a_column_that_only_the_formula_of_the_label_reads_is_no_leak(tmp_path):
    write_csv(tmp_path / "data.csv", trips())
    derived = YAML.replace("name: tipped", "name: big").replace("  split:", "  derive: {big: paid > 10}\n  split:")
    (tmp_path / "p.yaml").write_text(derived)
    found = {one.name: one for one in Pipeline.of(load_checked(tmp_path / "p.yaml")).data_page().columns}
    assert found["paid"].tells == found["tipped"].tells == 1
    assert not found["paid"].doubt and "may hold the label" in found["tipped"].doubt


def test_hostile_text_stays_text_and_every_picture_compiles(page, capfd):
    elements = Elements(page.page)
    assert elements.tags.count("img") == 0 and HOSTILE in bars(page, "zone").value.tolist()
    for column in page.columns:
        if column.spec:
            vl_convert.vegalite_to_vega({**column.spec, "config": vega.THEME}, vl_version=vega.VEGA_LITE)
    assert "WARN" not in capfd.readouterr().err


def test_splits_that_differ_are_named(tmp_path):
    columns = trips()
    columns["fare"] = np.where(columns["part"] == "b", np.arange(ROWS) % 50 + 100, columns["fare"])
    [verdict] = pipeline(tmp_path, columns).data_page().verdicts
    assert [(f.check, f.subject) for f in verdict.findings] == [("drift", "fare"), ("missing", "fare")]


def test_other_data_of_the_same_kind_does_not_differ_and_a_planted_change_comes_first(tmp_path):
    one = pipeline(tmp_path)
    write_csv(tmp_path / "same.csv", trips(seed=6))
    same = one.data_page(tmp_path / "same.csv")
    assert same.differences == ["against same.csv: no column differs beyond its limit."]
    changed = pd.DataFrame(trips(seed=6)).drop(columns="trip_id")
    changed["zone"] = np.where(np.arange(ROWS) % 2, "west", changed["zone"])
    against = one.data_page(changed.assign(new=1).replace({"?": None}).astype({"fare": float}))
    assert against.columns[0].name == "zone" and against.differences[0].startswith("differs: zone: drifted")
    assert against.notes == ("Only this data has: trip_id.", "Only the table has: new.")
    shares = bars(against, "zone").pivot(index="value", columns="side", values="share")
    assert shares.loc["west", "the table"] == pytest.approx(0.5) and shares.loc["west", "this data"] == 0


def test_a_request_log_is_compared_without_refused_requests(tmp_path):
    one, log = pipeline(tmp_path), tmp_path / "log" / "2026-11-29"
    log.mkdir(parents=True)
    columns = ("fare", "zone", "day", "note", "tags")
    rows = pd.DataFrame(trips(seed=7))[list(columns)].to_dict("records")
    lines = [
        {**row, "day": str(row["day"])[:10], "log_status": 400 if i % 4 == 0 else 200} for i, row in enumerate(rows)
    ]
    (log / "090000.000000-1-1.jsonl").write_text("".join(json.dumps(line, default=str) + "\n" for line in lines))
    found = one.data_page(tmp_path / "log")
    assert found.sides["log"] == ROWS * 3 // 4
    assert found.differences == ["against log: no column differs beyond its limit."]


def test_spans_are_compared_by_name(tmp_path):
    for month, seed in (("01", 1), ("02", 2)):
        columns = trips(seed)
        columns["fare"] = np.array(
            [f"{float(f) * 3:.2f}" if f != "?" and month == "02" else f for f in columns["fare"]]
        )
        write_csv(tmp_path / f"2024-{month}.csv", columns)
    (tmp_path / "p.yaml").write_text(YAML.replace("data.csv", "'{YYYY}-{MM}.csv'"))
    found = CliRunner().invoke(
        app, ["check", str(tmp_path / "p.yaml"), "--data", "--span", "2024-01", "--against", "2024-02"]
    )
    assert found.exit_code == 0, found.output
    assert "differs: fare: drifted from this data" in found.output.replace("\n", " ")


def test_the_command_writes_the_page_of_a_checked_file_and_of_init_with_its_reasons(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipeline(tmp_path)
    done = CliRunner().invoke(app, ["check", "p.yaml", "--data", "--page", "data.html"])
    assert done.exit_code == 0 and "Page: data.html" in done.output and "fare" in (tmp_path / "data.html").read_text()
    refused = CliRunner().invoke(app, ["check", "p.yaml", "--page", "data.html"])
    assert refused.exit_code and "add --data" in str(refused.exception)
    written = CliRunner().invoke(
        app, ["init", "data.csv", "--label", "tipped", "-o", "q.yaml", "--search-seconds", "0", "--page", "init.html"]
    )
    assert written.exit_code == 0, written.output
    shown = (tmp_path / "init.html").read_text()
    assert "gives the label away" in shown and "one more than in the row above" in shown


CELLS = st.lists(st.none() | st.text(max_size=5) | st.floats().map(str) | st.integers().map(str), min_size=1)


@given(cells=CELLS, what=st.sampled_from(["number", "token", "length", "date"]), seed=st.integers(0, 9))
def test_the_bars_of_any_cells_hold_all_rows_with_a_value(cells, what, seed):
    read = CellReading(what).cells(values_of(cells))
    target = Target("binary", np.random.default_rng(seed).integers(0, 2, len(cells)).astype(float))
    spec = picture({"all": read}, target)
    if spec is None:
        assert read.distribution.present == 0
        return
    assert len(read.distribution.values) <= ATOMS
    rows = pd.DataFrame(spec["data"]["values"])
    assert rows.share.sum() == pytest.approx(read.distribution.present / len(cells))
    means = rows[rows.value != OTHERS].label if "value" in rows else rows.label
    assert means.dropna().between(0, 1).all()
    json.dumps(spec, allow_nan=True)
