"""Spans from a column: found by reading, identified by their content, ingested without the rows of other spans."""

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.components.ingest.config import BadRows, DataConfig, SpanColumn
from fullpass.components.ingest.ingest import finish_ingestion, ingest_files
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.sources.files import resolve_path
from fullpass.components.ingest.spans.span_column import NO_SPAN, span_numbers
from fullpass.components.ingest.spans.span_pattern import parse_span
from fullpass.components.ingest.spans.spans import SpanNotFoundError, find_window, index_names
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from tests.components.ingest.ingesting import row_id
from tests.components.ingest.reading_tools import ingest_config_of
from tests.record_files import read_examples

COLUMNS = (RawColumn("fare", "number"),)
ROWS = ["2013-01-05 07:00:00,1", "2013-01-05 23:59:59,2", "2013-01-06,3"]


def data(**span) -> DataConfig:
    split = {"method": "random", "ratios": {"train": 1, "eval": 1}}
    source = {"format": "csv", "path": "*.csv"}
    return DataConfig.model_validate({"source": source, "split": split, "span": {"column": "at", **span}})


def write(folder, *rows, name="a.csv"):
    (folder / name).write_text("at,fare\n" + "\n".join(rows) + "\n")


def window(folder, asked=None, index=None, **span):
    return find_window(data(**span), lambda path: resolve_path(path, folder), asked, index=index)


def versions(found) -> dict[str, list[str]]:
    return {found.label(span.number): [file.version for file in span.files] for span in found.spans}


@pytest.mark.parametrize(
    ("span", "texts", "expected"),
    [
        ({}, ["2013-01-05T23:59:59+05:00", "2013-01-05 07", "20130105", "x", None], [15710] * 3 + [NO_SPAN] * 2),
        ({"unit": "month"}, ["2013-01-05", "2013-02-28", "2013-02-30"], [516, 517, NO_SPAN]),
        ({"unit": "year"}, ["2013-01-05"], [2013]),
        ({"unit": "hour"}, ["2013-01-05T07:30", "2013-01-05"], [377047, 377040]),
        ({"format": "%d.%m.%Y"}, ["05.01.2013", "2013-01-05"], [15710, NO_SPAN]),
        ({"format": "epoch_seconds"}, [str(15710 * 86_400 + 5), "1.35734400e9"], [15710] * 2),
        ({}, ["2013-W01-6", "20130105.0", "2013-01-05 13:05:59.25 UTC", "2013-01-05t1305z"], [15710] * 4),
        ({"format": "%F %T %z"}, ["2013-01-05 23:59:59 -0800", "2013-01-05 01:00:00 UTC"], [15710] * 2),
        ({"unit": "number"}, ["7", "-1", "7.5", ""], [7, -1, NO_SPAN, NO_SPAN]),
        ({"unit": "number"}, ["7.0", "1e3"], [7, NO_SPAN]),
        ({"format": "%Y%m%d"}, ["20130105.0"], [15710]),
    ],
)
def test_the_span_of_a_cell(span, texts, expected):
    declared = SpanColumn.model_validate({"column": "at", **span})
    assert span_numbers(pa.table({"at": pa.array(texts, pa.string())}), declared).tolist() == expected
    lists = pa.array([None if text is None else [text.encode()] for text in texts], pa.list_(pa.binary()))
    assert span_numbers(pa.table({"at": lists}), declared).tolist() == expected


def test_a_column_of_timestamps_counts_as_it_is_written():
    at = pa.array([datetime(2013, 1, 5, 7), None], pa.timestamp("us"))
    assert span_numbers(pa.table({"at": at}), SpanColumn(column="at")).tolist() == [15710, NO_SPAN]
    days = pa.table({"at": ["19,0", "19", "19.0"]})
    assert span_numbers(days, SpanColumn(column="at", unit="number"), ",").tolist() == [19, 19, NO_SPAN]


def test_spans_are_known_by_content_so_that_a_growing_file_changes_its_last_alone(tmp_path):
    write(tmp_path, *ROWS)
    before = versions(window(tmp_path, "2013-01-05:latest"))
    assert list(before) == ["2013-01-05", "2013-01-06"]
    write(tmp_path, *ROWS, "2013-01-08,4")
    grown = window(tmp_path, "2013-01-05:latest")
    assert {day: v for day, v in versions(grown).items() if day in before} == before
    assert [grown.label(n) for n in grown.missing] == ["2013-01-07"]
    write(tmp_path, ROWS[0].replace(",1", ",9"), *ROWS[1:])
    changed = versions(window(tmp_path, "2013-01-05:latest"))
    assert changed["2013-01-05"] != before["2013-01-05"] and changed["2013-01-06"] == before["2013-01-06"]
    with pytest.raises(SpanNotFoundError):
        window(tmp_path, "2013-01-07")


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path):
    write(tmp_path, *ROWS)
    index = tmp_path / "index"
    first = window(tmp_path, "2013-01-05:latest", index)
    (kept,) = index.iterdir()
    text = kept.read_text().replace(first.spans[0].files[0].version, "0123456789abcdef")
    state_file.write(kept, json.loads(text))
    again = window(tmp_path, "2013-01-05:latest", index)
    assert again.spans[0].files[0].version == "0123456789abcdef", "it came from the index"


@pytest.mark.parametrize("content", [b"", b"[", b"[]", b'{"parts": []}', None])
def test_a_damaged_index_is_made_anew(tmp_path, caplog, content):
    write(tmp_path, *ROWS)
    index = tmp_path / "index"
    first = window(tmp_path, "2013-01-05:latest", index)
    (kept,) = index.iterdir()
    before = kept.read_bytes()
    kept.write_bytes(before.replace(b'"rows": ', b'"rows": 1') if content is None else content)
    assert window(tmp_path, "2013-01-05:latest", index) == first and kept.read_bytes() == before
    assert str(kept) in caplog.text and "is read again" in caplog.text


def test_of_the_index_those_files_are_named_that_are_of_the_source_as_it_is_now(tmp_path):
    index, named = tmp_path / "index", []
    for rows in (ROWS, [*ROWS, "2013-01-08,4"]):
        write(tmp_path, *rows)
        window(tmp_path, "2013-01-05:latest", index)
        named.append(index_names(data(), lambda path: resolve_path(path, tmp_path)))
    assert [len(names) for names in named] == [1, 1] and named[0] != named[1]
    assert {path.name for path in index.iterdir()} == named[0] | named[1]
    assert index_names(data().model_copy(update={"span": None}), str) == set()


def test_a_column_without_any_span_is_named(tmp_path):
    write(tmp_path, "no,1")
    with pytest.raises(UserError, match=r"a\.csv: no row contains a span: column 'at' has no date in the format iso"):
        window(tmp_path)


def test_path_and_column_do_not_both_tell_spans(tmp_path):
    write(tmp_path, *ROWS, name="2013-01-05.csv")
    both = data().model_copy(update={"source": data().source.model_copy(update={"path": "{YYYY}-{MM}-{DD}.csv"})})
    with pytest.raises(UserError, match="source.path already has span fields"):
        find_window(both, lambda path: resolve_path(path, tmp_path))


@pytest.mark.integration
def test_each_span_has_its_rows_and_the_last_those_that_tell_none(tmp_path):
    days = [f"2013-01-0{5 + i // 40},{i}" for i in range(120)]
    write(tmp_path, *days[:100], "?,100", "1,2,3", *days[100:])
    found = window(tmp_path, "2013-01-05:latest")
    config = ingest_config_of(data()).model_copy(update={"bad_rows": BadRows(max_fraction=0.5)})
    ingests = [
        Ingestion(
            config, span.files, ("train", "eval"), COLUMNS, str(tmp_path / f"out{span.number}"), False, span=span.number
        )
        for span in found.spans
    ]
    with local_pipeline() as pipeline:
        ingest_files(ingests, pipeline)
    manifests = [finish_ingestion(ingest) for ingest in ingests]
    assert [(m.read, sum(m.written.values()), m.rows_quarantined) for m in manifests] == [
        (40, 40, 0),
        (40, 40, 0),
        (42, 40, 2),
    ]
    assert manifests[-1].quarantined == {"contains no span": 1, "3 cells, expected 2": 1}
    files = [path for ingest in ingests for path in sorted(Path(ingest.folder).glob("Split-*/*"))]
    found = [(row_id(row), row["fare"].float_list.value[0]) for row in read_examples(*files)]
    ids, fares = zip(*found, strict=True)
    assert sorted(fares) == list(range(120)) and len(set(ids)) == 120
    third = next(row for row, fare in zip(ids, fares, strict=True) if fare == 119)
    assert manifests[-1].holds(third) and not manifests[0].holds(third)
    assert manifests[-1].locate(third).endswith("a.csv, row 123")


ODD_CELLS = ("1e20", "inf", "-inf", "nan", "12345678901234567890", "-" + "9" * 30, "9" * 5000, "1e400", "٣" * 25, "")


@pytest.mark.parametrize("unit", ["number", "year", "month", "day", "hour"])
@pytest.mark.parametrize("format", ["iso", "epoch_seconds", "epoch_millis", "epoch_days", "%Y-%m-%d"])
def test_a_cell_is_a_span_or_none_whatever_it_holds(unit, format):
    span = SpanColumn(column="at", unit=unit, format=format)
    texts = pa.array([*ODD_CELLS, "0000-00-00", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
    assert span_numbers(pa.table({"at": texts}), span)[: len(ODD_CELLS)].tolist() == [NO_SPAN] * len(ODD_CELLS)
    numbers = pa.array([1e20, float("inf"), float("-inf"), float("nan"), 1e308, None])
    assert span_numbers(pa.table({"at": numbers}), span).tolist() == [NO_SPAN] * 6
    wide = pa.array([2**64 - 1, 10**19], pa.uint64())
    assert span_numbers(pa.table({"at": wide}), span).tolist() == [NO_SPAN] * 2


def test_the_largest_span_numbers_stay_numbers():
    span = SpanColumn(column="at", unit="number")
    assert span_numbers(pa.table({"at": ["9223372036854775807", "-5"]}), span).tolist() == [2**63 - 1, -5]


@pytest.mark.parametrize("unit", ["number", "year", "month", "day", "hour"])
@pytest.mark.parametrize("asked", ["9" * 25, "-" + "9" * 25, "9" * 5000])
def test_a_span_that_cannot_be_is_refused_in_words(unit, asked):
    with pytest.raises(UserError, match="there is no such"):
        parse_span(unit, asked)


@pytest.mark.parametrize("unit", ["year", "month", "day", "hour"])
@pytest.mark.parametrize("asked", ["99999999999", "-99999999999"])
def test_a_number_that_is_no_date_is_refused_in_words(unit, asked):
    with pytest.raises(UserError, match="there is no such"):
        parse_span(unit, asked)
