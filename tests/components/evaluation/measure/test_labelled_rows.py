"""Labelled rows are those that a model's Ingest would write."""

import math

import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.registry.score_models import labelled_rows

SHOPS = """\
name: shops
data:
  source: {format: csv, path: "{YYYY}-{MM}-{DD}.csv"}
  split: {method: time, column: day, until: {train: 2024-01-03}}
  window: {spans: 3}
  history: {past: {entity: shop, at: day, columns: [sales, rain], within: 3d}}
  derive: {rain: sales * 2, usual: past_mean(past.sales), wet: past_last(past.rain)}
label: {name: sales, task: regression, forecast: {ahead: 2d, season: 7d}}
features: {sales: number, usual: number, wet: number}
"""
SALES = {"a": [1, 2, 3, 4, 5], "b": [10, None, 30, 40, 50]}


def read(rows):
    """Returns one dictionary per usable row: column -> value, list of values, or None."""
    found = []
    for records in rows:
        for record in records:
            cells = tf.train.Example.FromString(record).features.feature
            lists = {name: list(one.float_list.value or one.int64_list.value) for name, one in cells.items()}
            found.append({name: values for name, values in lists.items() if name != "fullpass_row"})
    return found


def days(folder, suffix="csv"):
    """Writes a file per day, of two shops, of which one has a day without sales."""
    lines = [
        [f"{s},2024-01-0{day + 1},{'' if v[day] is None else v[day]}" for s, v in SALES.items()] for day in range(5)
    ]
    for day, of_day in enumerate(lines, start=1):
        (folder / f"2024-01-0{day}.csv").write_text("\n".join(["shop,day,sales", *of_day]) + "\n")
    (folder / "all.csv").write_text("\n".join(["shop,day,sales", *sum(lines, [])]) + "\n")
    (folder / "shops.yaml").write_text(SHOPS)
    return load(folder / "shops.yaml").config


def expected(first_day, events_from):
    """Returns (present value, later value, past values) of each row with a later one, by hand."""
    return [
        (now, values[day + 2], [one for one in values[max(day - 3, events_from) : day]])
        for day in range(first_day, 3)
        for values in SALES.values()
        for now in [values[day]]
    ]


def plain(values):
    return [None if math.isnan(value) else value for value in values]


@pytest.mark.parametrize(("data", "first_day"), [("shops.yaml", 2), ("all.csv", 0)])
def test_labels_and_lists_of_a_forecast_are_made_as_in_ingest(tmp_path, data, first_day):
    config = days(tmp_path)
    rows = labelled_rows(config, str(tmp_path / data), {})
    found = [
        (next(iter(row.get("sales", [])), None), row["sales in 2d"][0], plain(row.get("past.sales", [])))
        for row in read(rows)
    ]
    assert found == expected(first_day, 0)
    read_rows = 2 * (5 - first_day)
    assert (rows.rows, rows.bad, rows.absent) == (read_rows, 0, ())
    assert rows.unlabelled == (f"4 of {read_rows} rows: no row of its entity 2d later, so no label",)
    alone = "history past: its events are the rows of this data alone, so early rows have few"
    assert rows.short_histories == ((alone,) if data == "all.csv" else ())


def test_a_file_that_has_label_and_lists_keeps_them(tmp_path):
    config = days(tmp_path)
    (tmp_path / "given.jsonl").write_text(
        '{"sales": 1, "sales in 2d": 7, "past.at": [86400], "past.sales": [3], "past.rain": [6]}\n'
    )
    rows = labelled_rows(config, str(tmp_path / "given.jsonl"), {})
    wanted = {"sales": [1], "sales in 2d": [7], "past.at": [86400], "past.sales": [3], "past.rain": [6]}
    assert read(rows) == [wanted] and rows.unlabelled == rows.short_histories == ()


def test_labels_that_no_class_of_the_model_means_are_known(tmp_path):
    (tmp_path / "rows.csv").write_text("x,y\n1,True\n2,false\n3,ja\n4,\n")
    data = "name: a\ndata: {source: {format: csv, path: rows.csv}}\n"
    (tmp_path / "p.yaml").write_text(f"{data}label: {{name: y, task: multiclass}}\nfeatures: {{x: number}}")
    rows = labelled_rows(load(tmp_path / "p.yaml").config, str(tmp_path / "rows.csv"), {})
    assert len(read(rows)) == 4 and rows.labels == {"true", "false", "ja"}
    assert rows.labels_unknown_to(("false", "true")) == ["ja"]


JOINED = """\
name: a
data: {source: {format: csv, path: rows.csv}, joins: {towns: {source: {format: csv, path: towns.csv}, on: city}}}
label: {name: y, task: binary}
features: {people: {type: number, column: towns.people}}
"""


def test_rows_are_joined_with_the_tables_of_their_yaml(tmp_path):
    (tmp_path / "rows.csv").write_text("city,y\nOslo,1\nBern,0\n,1\n")
    (tmp_path / "towns.csv").write_text("city,people,fee\nOslo,5,1\nBern,,2\n")
    (tmp_path / "p.yaml").write_text(JOINED)
    rows = labelled_rows(load(tmp_path / "p.yaml").config, str(tmp_path / "p.yaml"), {})
    assert [row.get("towns.people") for row in read(rows)] == [[5], None, None]
    assert (rows.rows, rows.bad, rows.absent) == (3, 0, ())


@pytest.mark.parametrize(
    ("yaml", "header", "message"),
    [
        (SHOPS, "shop,sales", "no column 'day', which the label 'sales in 2d' needs"),
        (SHOPS, "shop,day", "no column 'sales', which the label 'sales in 2d' needs"),
        (SHOPS.replace("day, col", "hour, col"), "shop,day,sales", "no column 'hour', of which the history past is"),
        (JOINED, "city,y", "the columns towns.people are absent, which training joined"),
        (JOINED.replace("name: y", "name: towns.rich"), "city,x",
         "the columns towns.people, towns.rich are absent, which training joined.*and the table in data.joins"),
    ],
)  # fmt: skip
def test_a_file_that_lacks_what_the_columns_are_made_of_is_refused(tmp_path, yaml, header, message):
    (tmp_path / "p.yaml").write_text(yaml.replace("ahead: 2d", "ahead: 2d, entity: shop, at: day"))
    (tmp_path / "rows.csv").write_text(f"{header}\n{',1' * header.count(',')}\n")
    with pytest.raises(UserError, match=message):
        list(labelled_rows(load(tmp_path / "p.yaml").config, str(tmp_path / "rows.csv"), {}))
