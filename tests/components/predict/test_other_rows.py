"""Rows to predict get the lists of a history from a file of raw events."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from fullpass.base.errors import UsageError, UserError
from fullpass.components.ingest.joins.config import Join
from fullpass.components.predict.exported import Exported, TrainingRows
from fullpass.components.predict.other_rows import other_rows
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.columns.raw_columns import RawColumn, events_of_serving, serving_columns
from tests.components.predict.predicted_rows import input_rows

CONFIG = {
    "name": "a",
    "data": {
        "source": {"format": "csv", "path": "trips.csv"},
        "types": {"shop": "string"},
        "history": {"trips": {"entity": "who", "at": "when", "columns": ["double", "shop"], "within": "2d"}},
        "derive": {
            "double": "fare * 2",
            "usual": "past_mean(trips.double)",
            "shop_before": "past_last(trips.shop)",
        },
    },
    "features": {"usual": "number", "shop_before": "category"},
    "label": {"name": "tip", "task": "regression"},
}
EVENTS = """\
who,when,fare,shop,tip
7.0,2024-01-01T10:00,1,x,
7,2024-01-01T12:00+02:00,2,8.0,
7,2024-01-02T10:00,,y,
Zoë 🚕,2024-01-02T09:00,4,x,
7,2023-12-29T10:00,9,old,
7,2024-01-05T10:00,9,future,
,2024-01-01T10:00,9,nobody,
"""
ROWS = """\
who,when
7,2024-01-02T10:00
7,2024-01-02T10:00:01
Zoë 🚕,2024-01-02T10:00
07,2024-01-02T10:00
7,soon
,2024-01-02T10:00
"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "events.csv").write_text(EVENTS)
    (tmp_path / "rows.csv").write_text(ROWS)
    preprocessing = PipelineConfig.model_validate(CONFIG).preprocessing_config
    return Exported(
        directory=Path("none"),
        predict=lambda: {},
        columns=serving_columns(preprocessing),
        keys={},
        classes=(),
        levels=(),
        training=TrainingRows({"format": "csv"}, events=events_of_serving(preprocessing)),
    )


@pytest.fixture
def events(tmp_path):
    return {"trips": str(tmp_path / "events.csv")}


def trained_with(model, columns=None, **training):
    """Returns a model with other facts about the rows of its training."""
    return replace(model, columns=columns or model.columns, training=replace(model.training, **training))


def read(model, path, tables, histories, folder):
    """Returns the only batch of a file, completed by other rows."""
    others = other_rows(model, tables, histories, str(folder))
    (batch,) = input_rows(model.training.source, path, model.columns, joins=model.training.joins, others=others)
    return batch


def test_events_before_a_row_become_its_lists(model, events, tmp_path):
    batch = read(model, tmp_path / "rows.csv", {}, events, tmp_path)
    assert [(row.row, row.column, row.reason) for row in batch.bad] == [(6, "when", "no date of the format iso")]
    assert batch.good.tolist() == [True, True, True, True, False, True]
    nan = np.nan
    ages = [[86400, 86400, nan], [86401, 86401, 1], [3600, nan, nan], [nan] * 3, [nan] * 3]
    doubles = [[2, 4, nan], [2, 4, nan], [8, nan, nan], [nan] * 3, [nan] * 3]
    np.testing.assert_array_equal(batch.inputs["trips.at"], ages)
    np.testing.assert_array_equal(batch.inputs["trips.double"], doubles)
    shops = [[b"x", b"8.0", b""], [b"x", b"8.0", b"y"], [b"x", b"", b""], [b""] * 3, [b""] * 3]
    assert batch.inputs["trips.shop"].tolist() == shops
    assert not batch.shown.column_names[2:], "the lists are no columns of the output"


AS_OF = {"source": {"format": "csv", "path": "t"}, "on": "who", "as_of": {"left": "when", "right": "seen"}}
OF_T = {"t": Join.model_validate(AS_OF).description()}
SEEN = "who,seen,v\n7,2024-01-01,1\n7,2024-01-03,3\n"


@pytest.mark.parametrize(
    ("cells", "places", "values"),
    [  # the values of the rows that can be used
        (["2024-01-02", "soon", "", "2024-01-03T00:00+02:00", "never"], [True, False, True, True, False], [1, None, 1]),
        (["soon"], [False], []),
        ([""], [True], [None]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_with_an_unreadable_date_of_a_join_keep_their_place_and_their_cells(
    model, events, tmp_path, cells, places, values, ending
):
    columns = {**model.columns, "t.v": RawColumn("t.v", "number")}
    (tmp_path / "t.csv").write_text(SEEN)
    model = trained_with(model, columns, joins=OF_T)
    rows = pa.table({"who": ["7"] * len(cells), "when": cells, "id": [str(i) for i in range(len(cells))]})
    path = tmp_path / f"rows.{ending}"
    (csv.write_csv if ending == "csv" else pq.write_table)(rows, path)
    batch = read(model, path, {"t": f"{tmp_path}/t.csv"}, events, tmp_path)
    assert batch.shown.column("id").to_pylist() == [str(i) for i in range(len(cells))]
    assert [cell or "" for cell in batch.shown.column("when").to_pylist()] == cells
    assert batch.good.tolist() == places
    unreadable = [cell for cell, good in zip(cells, places, strict=True) if not good]
    assert [(row.column, row.text) for row in batch.bad] == [("when", cell) for cell in unreadable]
    assert [None if np.isnan(value) else value for value in batch.inputs["t.v"].tolist()] == values


def test_a_cell_that_is_no_text_is_no_date_of_a_join(model, tmp_path):
    (tmp_path / "t.csv").write_text(SEEN)
    model = trained_with(model, {"t.v": RawColumn("t.v", "number")}, joins=OF_T)
    dates = [["2024-01-02", "2024-01-03"], 5, None, "2024-01-03"]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"who": 7, "when": date}) + "\n" for date in dates))
    batch = read(model, tmp_path / "rows.jsonl", {"t": f"{tmp_path}/t.csv"}, {}, tmp_path)
    assert batch.good.tolist() == [False, False, True, True]
    assert [(row.row, row.column) for row in batch.bad] == [(1, "when"), (2, "when")]
    np.testing.assert_array_equal(batch.inputs["t.v"], [np.nan, 3])


def test_rows_without_any_key_have_no_events(model, events, tmp_path):
    (tmp_path / "rows.csv").write_text("who,when\n,2024-01-02\n,2024-01-03\n")
    batch = read(model, tmp_path / "rows.csv", {}, events, tmp_path)
    assert batch.good.all() and batch.inputs["trips.at"].shape == (2, 0)


def test_lists_that_the_input_has_are_kept(model, events, tmp_path):
    (tmp_path / "rows.jsonl").write_text(
        '{"trips.at": [5], "trips.double": [7], "trips.shop": ["z"]}\n'
        + "".join(
            f'{{"trips.at": {ages}, "trips.double": [7, 8, 9], "trips.shop": ["z", "y", "x"]}}\n'
            for ages in ("[1, 2, 0]", "[3, null, 1]", "[1, null, 2]", "[3, 1, -1]")
        )
    )
    batch = read(model, tmp_path / "rows.jsonl", {}, events, tmp_path)
    newest_first = "not the ages of events, the oldest first"
    assert [(row.row, row.column, row.reason, row.text) for row in batch.bad] == [
        (2, "trips.at", newest_first, "[1, 2, 0]"),
        (3, "trips.at", newest_first, "[3, None, 1]"),
        (4, "trips.at", newest_first, "[1, None, 2]"),
        (5, "trips.at", newest_first, "[3, 1, -1]"),
    ]
    assert {name: cells.tolist() for name, cells in batch.inputs.items()} == {
        "trips.at": [[5]], "trips.double": [[7]], "trips.shop": [[b"z"]]
    }  # fmt: skip


def test_events_that_cannot_be_read_are_named(model, events, tmp_path):
    for cell, reason in (("2024-01-05,much,x,", "not a number in column 'fare': 'much'"),
                         ("soon,1,x,", "no date of the format iso in column 'when': 'soon'")):  # fmt: skip
        (tmp_path / "events.csv").write_text(f"{EVENTS}7,{cell}\n")
        with pytest.raises(UserError, match=rf"--history trips=.*: 1 of 8 rows of the events.*row 9: {reason}"):
            other_rows(model, {}, events, f"{tmp_path}/{cell[:4]}")
        as_trained = trained_with(model, most_bad=0.2)
        (index,) = other_rows(as_trained, {}, events, f"{tmp_path}/{cell[:2]}").histories
        assert index.events == 6


@pytest.mark.parametrize("order", [1, -1])  # TFX sorts the joins of the description by name
def test_tables_are_joined_in_the_order_of_the_yaml(model, tmp_path, order):
    joins = {"a": {"source": {"format": "csv", "path": "a"}, "on": "k"},
             "b": {"source": {"format": "csv", "path": "b"}, "on": {"a.id": "id"}}}  # fmt: skip
    features = {name: {"type": "number", "column": name} for name in ("a.id", "b.v")}
    config = PipelineConfig.model_validate({**CONFIG, "data": {**CONFIG["data"], "joins": joins}, "features": features})
    described = {name: join.description() for name, join in list(config.data.joins.items())[::order]}
    model = trained_with(model, serving_columns(config.preprocessing_config), joins=described, events={})
    (tmp_path / "a.csv").write_text("k,id\nx,16777217\ny,16777216\n")
    # Of CSV, blanks go.
    (tmp_path / "b.jsonl").write_text('{"id": " 16777217", "v": " 1"}\n{"id": "16777216", "v": "2"}\n')
    (tmp_path / "rows.csv").write_text("k\nx\ny\n")
    given = {"b": f"{tmp_path}/b.jsonl", "a": f"{tmp_path}/a.csv"}
    batch = read(model, tmp_path / "rows.csv", given, {}, f"{tmp_path}/2")
    assert {name: cells.tolist() for name, cells in batch.inputs.items()} == {"a.id": [2**24, 2**24], "b.v": [1, 2]}
    with pytest.raises(UserError, match=r"the columns a\.id are absent, which training joined.*--join a=PATH"):
        read(model, tmp_path / "rows.csv", {"b": given["b"]}, {}, f"{tmp_path}/1")


def test_a_history_that_the_model_does_not_have_is_named(model, tmp_path):
    with pytest.raises(UsageError, match=r"--history trip=x: the model has no such history. Did you mean .*trips"):
        other_rows(model, {}, {"trip": "x"}, str(tmp_path))


def test_a_table_that_the_model_contains_is_not_given(model, tmp_path):
    model = trained_with(model, lookups=("companies",))
    with pytest.raises(UsageError, match=r"--join companies=x: the model contains this table.*`fullpass refresh`"):
        other_rows(model, {"companies": "x"}, {}, str(tmp_path))
    with pytest.raises(UsageError, match=r"--join company=x: the model has no such join. Its joins: none"):
        other_rows(model, {"company": "x"}, {}, str(tmp_path))
