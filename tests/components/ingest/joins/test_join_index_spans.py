"""Rows of a span joined with the tables of their span and of those before it, against pandas."""

import numpy as np
import pandas as pd
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.ingestion import ingestion_of, with_joins
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.components.ingest.reading_tools import ingest_config_of, ingested_parts, request_of

DAYS = pd.date_range("2024-01-01", periods=5)
COLUMNS = (RawColumn("id", "number"), RawColumn("weather.temp", "number"), RawColumn("weather.sky", "string"))
AS_OF = {"left": "at", "right": "seen", "within": "36h", "available_after": "1h"}
BY_PATH = {"source": {"format": "csv", "path": "rows/{YYYY}-{MM}-{DD}.csv"}}
BY_COLUMN = {"source": {"format": "csv", "path": "rows/*.csv"}, "span": {"column": "at"}}


def write(folder, rows, tables):
    for name, of_days in (("rows", rows), ("weather", tables)):
        (folder / name).mkdir(exist_ok=True)
        for day, frame in zip(DAYS, of_days, strict=True):
            frame.to_csv(folder / name / f"{day:%Y-%m-%d}.csv", index=False)


@pytest.fixture
def frames(tmp_path):
    """Returns the rows and the weather of each day. Every table has rows of the day before that come late."""
    random = np.random.default_rng(3)
    rows, tables = [], []
    for number, day in enumerate(DAYS):
        at = (day + pd.to_timedelta(random.integers(0, 86_400, 40), "s")).strftime("%Y-%m-%dT%H:%M:%S")
        places = random.choice(["A", "B", "C", "none"], 40)
        rows.append(pd.DataFrame({"id": np.arange(40) + 1000 * number, "place": places, "at": at}))
        seen = day + pd.to_timedelta(random.choice(np.arange(-86_400, 86_400, 600), 20, replace=False), "s")
        table = {
            "place": random.choice(["A", "B", "C"], 20),
            "seen": seen,
            "temp": random.random(20).round(4),
            "sky": "s",
        }
        tables.append(pd.DataFrame(table).sort_values("seen", ignore_index=True))
    tables[3] = tables[3].iloc[:0]
    return rows, tables


def requested(folder, join, data, spans="latest", window=5):
    join = {"source": {"format": "csv", "path": "weather/{YYYY}-{MM}-{DD}.csv"}, "on": "place", **join}
    config = DataConfig.model_validate({**data, "joins": {"weather": join}, "window": {"spans": window}})
    return request_of(folder, config, ingest_config_of(config), COLUMNS, spans)


def joined(request, folder):
    """Returns id -> temp of the rows of all spans, and what was counted of each span."""
    ingestions = [ingestion_of(request, span, str(folder)) for span in request.spans]
    found, counts = {}, []
    for ingestion in with_joins(ingestions, request, str(folder / f"index-{len(list(folder.iterdir()))}")):
        unmatched = 0
        for reading, tables in ingested_parts(ingestion):
            for table in tables:
                found |= zip(table["id"].to_pylist(), table["weather.temp"].to_pylist(), strict=True)
            unmatched += reading.unmatched["weather"]
        counts.append(ingestion.joins[0].count(ingestion.span, unmatched))
    return found, counts


def by_key(rows, seen, own):
    return rows.merge(seen[seen.span == own].drop_duplicates("place", keep="last"), "left", "place")


def as_of(rows, seen, own):
    """The newest row that is known; of two with one date that of the newer span; not older than 36 hours."""
    seen = seen.drop_duplicates(["place", "seen"], keep="last")
    known = seen.assign(known=seen.seen + pd.Timedelta("1h")).sort_values("known")
    rows = rows.assign(time=pd.to_datetime(rows["at"])).sort_values("time")
    found = pd.merge_asof(rows, known, left_on="time", right_on="known", by="place", direction="backward")
    found.loc[found.time - found.seen > pd.Timedelta("36h"), "temp"] = np.nan
    return found


@pytest.mark.parametrize("data", [BY_PATH, BY_COLUMN])
@pytest.mark.parametrize(
    ("join", "expect", "before"), [({"duplicates": "last"}, by_key, 0), ({"as_of": AS_OF}, as_of, 3)]
)
def test_a_span_is_joined_with_its_own_tables(tmp_path, frames, data, join, expect, before):
    rows, tables = frames
    if before:
        corrected = tables[1].tail(3).assign(temp=-1.0)  # of the day before
        tables[2] = pd.concat([tables[2], corrected]).drop_duplicates(["place", "seen"], keep="last")
    write(tmp_path, rows, tables)
    found, counts = joined(requested(tmp_path, join, data), tmp_path)
    expected = {}
    for own, (of_day, count) in enumerate(zip(rows, counts, strict=True)):
        first = max(own - before, 0)
        seen = pd.concat([t.assign(span=s) for s, t in enumerate(tables[: own + 1]) if s >= first])
        matched = expect(of_day, seen, own)
        expected |= dict(zip(matched.id, matched.temp.astype("float32"), strict=True))
        assert [path[-14:-4] for path in count.files] == [f"{day:%Y-%m-%d}" for day in DAYS[first : own + 1]]
        assert count.unmatched == matched.temp.isna().sum() and count.table_rows + count.set_aside == len(seen)
    assert found == {n: None if np.isnan(temp) else temp for n, temp in expected.items()}
    alone, _ = joined(requested(tmp_path, join, data, "2024-01-03", 1), tmp_path)
    assert alone.items() <= found.items() and len(alone) == 40, "what else is ingested changes nothing"


@pytest.mark.parametrize(("join", "changed"), [({"duplicates": "last"}, {1}), ({"as_of": AS_OF}, {1, 2, 3, 4})])
def test_a_changed_table_changes_the_spans_that_saw_it(tmp_path, frames, join, changed):
    write(tmp_path, *frames)
    before = requested(tmp_path, join, BY_PATH).spans
    with (tmp_path / "weather" / "2024-01-02.csv").open("a") as file:
        file.write("D,2024-01-02,1,s\n")
    after = requested(tmp_path, join, BY_PATH).spans
    pairs = zip(before, after, strict=True)
    assert {n for n, (one, other) in enumerate(pairs) if one.fingerprint != other.fingerprint} == changed


@pytest.mark.parametrize("text", ["", "place,seen,temp,sky\n"])
def test_an_empty_table_of_a_span_has_no_match(tmp_path, frames, text):
    write(tmp_path, *frames)
    (tmp_path / "weather" / "2024-01-05.csv").write_text(text)
    found, (count,) = joined(requested(tmp_path, {}, BY_PATH, window=1), tmp_path)
    assert set(found.values()) == {None} and (count.table_rows, count.set_aside, count.unmatched) == (0, 0, 40)


@pytest.mark.parametrize(
    ("join", "data", "message"),
    [
        ({}, BY_PATH, r"data\.joins\.weather\.source\.path: no table of span 2024-01-05.*write a file without rows"),
        ({"serve": "lookup"}, BY_PATH, "data.joins.weather: serve: lookup has one table for all rows"),
        ({}, {"source": {"format": "csv", "path": "rows/*.csv"}}, "a span per day, but the source of the rows has no"),
        ({}, {**BY_COLUMN, "span": {"column": "at", "unit": "month"}}, "the source of the rows has one per month"),
    ],
)
def test_tables_that_do_not_fit_the_spans_are_refused(tmp_path, frames, join, data, message):
    write(tmp_path, *frames)
    (tmp_path / "weather" / "2024-01-05.csv").unlink()
    with pytest.raises(UserError, match=message):
        requested(tmp_path, join, data)
