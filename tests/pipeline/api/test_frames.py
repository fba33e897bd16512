"""Tables in memory, in and out, against pandas and polars themselves."""

from datetime import datetime
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fullpass
from fullpass.pipeline.api.frames import as_arrow, concatenated, like, write_parquet

FARES = pd.DataFrame(
    {"fare": [1, 2, 2], "company": pd.Categorical(["x", None, "x"])},
    index=pd.Index(["r", "s", "s"], name="trip"),
)
SCORES = pa.array([0.5, None, 0.25], pa.float32())


def test_pandas_keeps_its_index_types_and_columns():
    """The index has a name and repeats a value; an absent column of the result is dropped."""
    result = as_arrow(FARES.assign(image=b"")).append_column("score", SCORES).drop(["image"])
    back = like(FARES.assign(image=b""), result, given=["fare", "company", "image"])
    expected = FARES.assign(score=pd.Series([0.5, None, 0.25], FARES.index[:3].array, "float32").to_numpy())
    pd.testing.assert_frame_equal(back, expected)
    alone = like(FARES, pa.table({"score": SCORES}))
    assert alone.index.equals(FARES.index) and alone.index.name == "trip" and list(alone) == ["score"]


def test_polars_comes_back_as_polars():
    rows = pl.DataFrame({"fare": [1, 2, 2], "company": pl.Series(["x", None, "x"], dtype=pl.Categorical)})
    back = like(rows, as_arrow(rows).append_column("score", SCORES), given=["fare", "company"])
    assert back.equals(rows.with_columns(score=pl.Series([0.5, None, 0.25], dtype=pl.Float32)))
    assert back.schema["company"] == rows.schema["company"]


def test_other_rows_give_arrow():
    table = pa.table({"score": SCORES})
    for rows in (table, [{"fare": 1}], {"fare": [1]}):
        assert like(rows, table) is table


def test_a_file_of_a_table_is_named_by_its_content(tmp_path):
    first = write_parquet({"a": [1, 2]}, tmp_path / "tables")
    stamp = first.stat().st_mtime_ns
    assert write_parquet(pa.table({"a": [1, 2]}), tmp_path / "tables") == first
    assert first.stat().st_mtime_ns == stamp, "not written again"
    assert write_parquet({"a": [1, 3]}, tmp_path / "tables") != first
    assert pq.read_table(first).to_pydict() == {"a": [1, 2]} and len(list((tmp_path / "tables").iterdir())) == 2


def test_times_keep_their_nanoseconds(tmp_path):
    times = pd.DataFrame({"at": [pd.Timestamp("2024-01-01 00:00:00.123456789")]})
    assert pq.read_table(write_parquet(times, tmp_path)).to_pandas().equals(times)


def test_whole_numbers_beyond_64_bits_are_text_as_in_json_lines():
    rows = [{"id": 2**70}, {"id": 5}, {"id": None}]
    assert as_arrow(rows).to_pydict() == {"id": [str(2**70), "5", None]}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pd.period_range("2024-03", periods=2, freq="M"), [datetime(2024, 3, 1), datetime(2024, 4, 1)]),
        (pd.array([pd.Period("2024Q2"), pd.NaT], dtype="period[Q]"), [datetime(2024, 4, 1), None]),
        (pd.interval_range(0, 2), [{"left": 0, "right": 1}, {"left": 1, "right": 2}]),
        (pd.cut([0.5, 9, 2, 1], [0, 1, 2]), ["(0, 1]", None, "(1, 2]", "(0, 1]"]),
        (pd.arrays.SparseArray([0.5, None]), [0.5, None]),
        (pd.array([7, None], dtype="Int64"), [7, None]),
        (pd.Categorical([3, 1]), [3, 1]),
    ],
)
def test_types_of_pandas_are_read_in_a_frame_and_in_a_dict(values, expected):
    frame = pd.DataFrame({"x": values})
    for rows in (frame, {"x": values}, {"x": frame["x"]}):
        assert as_arrow(rows)["x"].combine_chunks().to_pylist() == expected


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"fare": 3.0, "company": "Acme"}, "'fare' is one value, 3.0. .* for one row, a list with one dict"),
        ({"company": "Acme"}, "'company' is one value, 'Acme'"),
        ({"fare": None}, "'fare' is one value, None"),
        ([{1: 2}], "names of columns are text. Received: 1"),
        ({"fare": [1, 2], "company": ["a"]}, "expected length 2 but got length 1"),
        ([{"fare": 1}, {"fare": "x"}], "column 'fare': .* values of one type"),
        ([{"company": "\ud800"}], "column 'company': .* surrogates"),
        (pd.DataFrame({"id": [2**70]}), "too large"),
        (pd.DataFrame({"company": ["\ud800"]}), "surrogates"),
        (pd.DataFrame({"x": [1, "2"]}), r"table: Could not .* int64; Conversion failed for column x .*object\. Give"),
        (pd.DataFrame([[1, 2]], columns=["fare", "fare"]), "Duplicate column names"),
        (pd.DataFrame([[1, 2]], columns=["fare", "fare"], dtype="Sparse[int]"), "Duplicate column names"),
    ],
)
def test_what_is_no_table_is_an_error_of_the_user(rows, says):
    with pytest.raises(fullpass.UserError, match=says):
        as_arrow(rows)


def test_rows_of_a_list_may_differ_in_types_where_each_is_predicted_alone():
    rows = [{"fare": 20, "company": "Acme"}, {"fare": "much"}, {"fare": [1, 2.5], "company": {"x": 1}}]
    table = as_arrow(rows, row_by_row=True)
    assert table["fare"].to_pylist() == [["20"], ["much"], ["1", "2.5"]]
    assert table["company"].to_pylist() == ["Acme", None, '{"x": 1}']
    assert as_arrow([{"fare": 20}, {"fare": 2.5}], row_by_row=True)["fare"].to_pylist() == [20.0, 2.5]
    with pytest.raises(fullpass.UserError, match="values of one type"):
        as_arrow({"fare": [20, "much"]}, row_by_row=True)  # a column is whole
    with pytest.raises(fullpass.UserError, match=r"column 'company': .*\\ud800.* surrogates"):
        as_arrow([{"company": "\ud800"}, {"company": 1}], row_by_row=True)


def test_tables_of_files_may_differ_in_types_and_columns():
    parts = [
        pa.table({"fare": [1, 2], "id": [7, 8], "tags": [["x"], None], "gone": pa.nulls(2), "score": SCORES[:2]}),
        pa.table({"id": ["a"], "fare": [2.5], "tags": [[]], "score": SCORES[2:], "only": [True]}),
        pa.table({"fare": pa.nulls(1), "id": pa.nulls(1), "score": pa.array([1.0], pa.float32())}),
    ]
    expected = {
        "fare": [1.0, 2.0, 2.5, None],
        "id": ["7", "8", "a", None],
        "tags": [["x"], None, [], None],
        "gone": [None] * 4,
        "score": [0.5, None, 0.25, 1.0],
        "only": [None, None, True, None],
    }
    table = concatenated(parts)
    assert table.to_pydict() == expected and table.schema.field("score").type == pa.float32()


@pytest.mark.integration
def test_init_writes_a_pipeline_from_a_frame(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame({"fare": [float(i % 50) for i in range(400)], "tipped": [i % 3 == 0 for i in range(400)]})
    pipeline = fullpass.init(rows, label="tipped")
    assert (pipeline.config.label.task, list(pipeline.config.features)) == ("binary", ["fare"])
    assert pq.read_table("pipeline.parquet").to_pandas().equals(rows)
    said = capsys.readouterr().out
    assert "label: tipped" in said and "fullpass check" not in said
    file = Path("pipeline.yaml")
    written = file.read_bytes()
    times = [path.stat().st_mtime_ns for path in (file, Path("pipeline.parquet"))]
    again = fullpass.init(rows, label="tipped")
    assert again.config == pipeline.config and file.read_bytes() == written
    assert [path.stat().st_mtime_ns for path in (file, Path("pipeline.parquet"))] == times, "no new data for a run"
    with pytest.raises(fullpass.UserError, match=r"pipeline.parquet exists, and holds another table. .*overwrite=True"):
        fullpass.init(rows.tail(300), label="tipped")
    file.write_bytes(written + b"# by hand\n")
    with pytest.raises(fullpass.UserError, match=r"pipeline.yaml exists, and is not what init writes now"):
        fullpass.init(rows, label="tipped")
    assert file.read_bytes().endswith(b"# by hand\n")
    with pytest.raises(fullpass.UserError, match="no such column"):
        fullpass.init(rows.tail(300), label="tip", overwrite=True)
    assert pq.read_table("pipeline.parquet").num_rows == 400, "what is replaced comes back if nothing is written"
    fullpass.init(rows, label="tipped", overwrite=True)
    assert file.read_bytes() == written
    with pytest.raises(fullpass.UserError, match="no such column"):
        fullpass.init(rows, label="tip", output="other.yaml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipeline.parquet", "pipeline.yaml"]
    assert fullpass.init(tmp_path / "pipeline.parquet", "tipped", output="other.yaml").config.label.name == "tipped"
