"""Rules of `data.joins`: one wrong thing at a time."""

from dataclasses import replace

import pytest

from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError


def planes(on="plane", path="planes.csv", more=""):
    return f"planes: {{source: {{format: csv, path: {path}}}, {more}on: {on}}}"


PLANES = planes()
MAKERS = "makers: {source: {format: csv, path: makers.csv}, on: {planes.maker: name}}"
SEATS = "seats: {type: number, column: planes.seats}"
COUNTRY = "country: {type: category, column: makers.country}"


def problems(folder, joins, features=SEATS, data="", path="rows.csv", also=""):
    (folder / "rows.csv").write_text(f"plane,at,y{also}\nN1,2024-01-01,0{',' * bool(also)}\n")
    (folder / "planes.csv").write_text("plane,seats,maker\nN1,5,Airbus\n")
    (folder / "makers.csv").write_text("name,country\nAirbus,France\n")
    source = f"source: {{format: csv, path: {path}}}\n  joins: {{{joins}}}\n{data}"
    text = f"name: a\ndata:\n  {source}\nlabel: {{name: y, task: binary}}\nfeatures: {{{features}}}\n"
    (folder / "p.yaml").write_text(text)
    return [(p.severity, p.path, p.message) for p in check(load(folder / "p.yaml"))]


def test_joins_of_joins_are_accepted(tmp_path):
    assert problems(tmp_path, f"{PLANES}, {MAKERS}", COUNTRY) == []


@pytest.mark.parametrize(
    ("joins", "features", "path", "message"),
    [
        (planes(path="plane.csv"), SEATS, "data.joins.planes.source", "is no file. Did you mean"),
        (planes("tail"), SEATS, "data.joins.planes", 'no column "tail" in the table'),
        (PLANES.replace(".csv}", ".csv, missing_in: {seat: [x]}}"), SEATS, "data.joins.planes", 'no column "seat"'),
        (planes("{tail: plane}"), SEATS, "data.joins.planes.on", 'no column "tail" in the data'),
        (PLANES, SEATS.replace("seats}", "seat}"), "features.seats", 'Did you mean "planes.seats"?'),
        (PLANES, "plane: category", "data.joins.planes", "nothing reads a column of it"),
        (f"{MAKERS}, {PLANES}", f"{SEATS}, {COUNTRY}", "data.joins.makers.on", "Move that one up"),
        (planes("late"), SEATS, "data.joins.planes.on", "joins come before derived columns"),
        (planes("{y: plane}"), SEATS, "features.seats", "planes.seats is found by y, which tells"),
        (f"{planes('{y: plane}')}, {MAKERS}", COUNTRY, "features.country",
         "makers.country is found by y, which tells the label"),
    ],
)  # fmt: skip
def test_a_wrong_join_is_named(tmp_path, joins, features, path, message):
    derive = "  derive: {late: 'y > 0'}\n" if "on: late" in joins else ""
    found = problems(tmp_path, joins, features, derive)
    assert [(p, severity) for severity, p, text in found if message in text] == [(path, "error")], found


def test_a_column_of_the_rows_is_not_hidden_by_a_joined_one(tmp_path):
    found = problems(tmp_path, PLANES, also=",planes.seats")
    assert [(severity, path) for severity, path, _ in found] == [("error", "data.joins.planes")], found
    assert "the rows have a column planes.seats of their own" in found[0][2]


def test_a_span_without_its_table_is_named(tmp_path):
    per_span = planes(path='"planes-{SPAN}.csv"')
    (tmp_path / "planes-1.csv").write_text("plane,seats\nN1,5\n")
    (tmp_path / "rows-1.csv").write_text("plane,at,y\nN1,2024-01-01,0\n")
    assert problems(tmp_path, per_span, path='"rows-{SPAN}.csv"') == []
    (tmp_path / "rows-2.csv").write_text("plane,at,y\nN1,2024-01-01,0\n")
    ((severity, path, message),) = problems(tmp_path, per_span, path='"rows-{SPAN}.csv"')
    assert (severity, path) == ("error", "data.joins.planes.source.path") and "no table of span 2" in message
    assert any("has no spans" in message for _, _, message in problems(tmp_path, per_span))


def test_a_table_that_still_arrives_does_not_stop_the_spans_before_it(tmp_path):
    per_span = planes(path='"planes-{SPAN}.csv"')
    for span in (1, 2):
        (tmp_path / f"rows-{span}.csv").write_text("plane,at,y\nN1,2024-01-01,0\n")
    (tmp_path / "planes-1.csv").write_text("plane,seats\nN1,5\n")
    (tmp_path / "planes-2.csv").write_text("pla")
    assert problems(tmp_path, per_span, path='"rows-{SPAN}.csv"')
    loaded = load(tmp_path / "p.yaml")
    assert check(replace(loaded, span="1")) == ()
    assert check(replace(loaded, span="1:2"))
    (tmp_path / "rows-2.csv").unlink()
    assert problems(tmp_path, per_span, path='"rows-{SPAN}.csv"') == [], "no row sees the newest table yet"


@pytest.mark.parametrize(
    ("join", "message"),
    [
        (PLANES.replace("planes:", "my.planes:"), "a dot ends its name"),
        (planes(path="{train: a.csv, eval: b.csv}"), "one table for all splits"),
        (planes(more="serve: lookup, as_of: {left: at, right: at}, "), "joins by key only"),
        (planes(more="as_of: {left: at, right: at, within: 1h, available_after: 2h}, "), "too old"),
    ],
)
def test_an_impossible_join_does_not_load(tmp_path, join, message):
    with pytest.raises(ConfigError, match=message):
        problems(tmp_path, join)
