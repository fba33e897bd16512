"""The rows of a log in three formats, its unusable rows, and labels as they were known by a time."""

import csv
import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.components.ingest.joins.build_index import build_index
from fullpass.components.ingest.joins.tables import Tables
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.watch.config import LABELS, LabelTable, ServingLogConfig
from fullpass.components.watch.log_rows import LogBatch, LoggedColumns, LogReader, ReadCount, Refused
from fullpass.preprocessing.columns.raw_columns import RawColumn

COLUMNS = LoggedColumns(
    {"km": RawColumn("km", "number"), "shop": RawColumn("shop", "string", token=True)},
    {"late": RawColumn("late", "number")},
)


def micros(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e6)


def line(number, **changed):
    return {
        "log_id": f"r{number}",
        "log_time": f"2026-01-08T{number % 24:02d}:00:00.5Z",
        "log_version": 1,
        "log_sampled": 1.0,
        "log_status": 200,
        "log_scores": [number / 8],
        "log_label": "yes",
        "km": 1.5 * number,
        "shop": "north",
    } | changed


def write(path, lines):
    """Writes the lines in the format that the name ends with; in CSV, lists are text."""
    if path.suffix == ".jsonl":
        path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(lines), path)
    else:
        with path.open("w", newline="") as file:
            out = csv.DictWriter(file, lines[0])
            out.writeheader()
            out.writerows(lines)
    return path


def read(path, *, until="2026-01-09", labels=None, **log):
    """Returns the batches of the rows, the refused ones, and what was counted."""
    source = {"format": path.suffix[1:], "path": path.name}
    config = ServingLogConfig.model_validate({"source": source, **log})
    index = None
    if labels is not None:
        of = LabelTable.model_validate({"source": {"format": "csv", "path": labels.name}, "on": "id", "at": "known_at"})
        files = tuple(find_inputs(of.source, lambda name: str(labels.parent / name)))
        columns = [RawColumn(f"{LABELS}.late", "number"), RawColumn(f"{LABELS}.known_at", "string")]
        index = build_index(LABELS, of.join(config.id), Tables(files), columns, 1.0, str(path.parent))
    reader = LogReader(
        config, {1: COLUMNS}, 1, micros("2026-01-08"), micros(until), index, None if index is None else "known_at"
    )
    count, found = ReadCount(), []
    for file in find_inputs(config.source, lambda name: str(path.parent / name)):
        found += reader.read(file, count)
    return [b for b in found if isinstance(b, LogBatch)], [b for b in found if isinstance(b, Refused)], count


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_the_rows_are_those_of_the_file(tmp_path, format):
    lines = [line(0), line(1, km=None, log_sampled=0.25), line(2, shop=None, log_version=3), line(3, log_status=400)]
    (batch,), refused, count = read(write(tmp_path / f"log.{format}", lines))
    assert batch.times.tolist() == [micros("2026-01-08T00:00:00.5"), micros("2026-01-08T01:00:00.5")]
    assert batch.rates.tolist() == [1.0, 0.25]
    assert batch.arrays["km"].to_pylist() == [0.0, None] and batch.arrays["shop"].to_pylist() == [b"north"] * 2
    assert batch.scores.tolist() == [[0.0], [0.125]] and batch.answers.to_pylist() == ["yes", "yes"]
    assert {(v, t) for r in refused for v, t in zip(r.version, r.times, strict=True)} == {
        (-3, micros("2026-01-08T02:00:00.5")),  # of a version that is not here
        (1, micros("2026-01-08T03:00:00.5")),
    }
    assert (count.rows, count.later, dict(count.bad)) == (4, 0, {})


def test_a_row_has_the_same_id_and_values_in_every_format(tmp_path):
    lines = [line(number, km=round(0.1 * number, 3)) for number in range(20)]
    plain = [{name: of for name, of in one.items() if name not in ("log_scores", "log_label")} for one in lines]
    found = [read(write(tmp_path / f"log.{format}", plain))[0][0] for format in ("jsonl", "parquet", "csv")]
    for other in found[1:]:
        assert len({*other.row_ids.tolist()}) == 20 and (other.row_ids == found[0].row_ids).all()
        for name in COLUMNS.columns:
            assert other.arrays[name] == found[0].arrays[name]
        assert (other.times == found[0].times).all()


def test_unusable_rows_are_counted_with_their_reason_and_the_others_are_read(tmp_path):
    lines = [
        line(0),
        line(1, log_time="yesterday"),
        line(2, log_sampled=0),
        line(3, log_sampled=1.5),
        line(4, km="far"),
        '{"log_id": "torn", "log_ti',
        line(6),
    ]
    (batch,), _, count = read(write(tmp_path / "log.jsonl", lines))
    assert batch.arrays["km"].to_pylist() == [0.0, 9.0]
    assert count.rows == len(lines) and count.bad.total() == 5
    reasons = {why.partition(" in column ")[2].strip("'"): number for why, number in count.bad.items()}
    assert reasons["log_time"] == 1 and reasons["log_sampled"] == 2 and reasons["km"] == 1
    (shown,) = [bad.shown for why, bad in count.first.items() if "log_time" in why]
    assert "row 2" in shown and "yesterday" in shown, "its place and what was received"


def test_rows_after_the_watch_do_not_count(tmp_path):
    lines = [line(0), line(1), line(2, log_time="2026-01-07T23:59:59Z"), line(3)]
    (batch,), _, count = read(write(tmp_path / "log.jsonl", lines), until="2026-01-08T01:00:00")
    assert len(batch.times) == 1 and count.later == 2


def test_a_log_with_own_names_and_without_version_is_one_of_the_served_version(tmp_path):
    rows = [{"id": "a", "at": "08.01.2026 07:30", "km": 2.0, "shop": "north"}]
    log = {"id": "id", "time": "at", "format": "%d.%m.%Y %H:%M"}
    (batch,), refused, _ = read(write(tmp_path / "log.csv", rows), **log)
    assert (batch.version, batch.times.tolist()) == (1, [micros("2026-01-08T07:30")]) and not refused
    assert batch.rates.tolist() == [1.0] and batch.scores is None and batch.answers is None


def test_a_label_counts_from_the_time_at_which_it_is_known(tmp_path):
    labels = [("r0", 1, "2026-01-08T12:00:00"), ("r1", 0, "2026-01-08T20:00:00"), ("other", 1, "2026-01-08T01:00:00")]
    (tmp_path / "labels.csv").write_text("id,late,known_at\n" + "".join(f"{i},{y},{t}\n" for i, y, t in labels))
    log = write(tmp_path / "log.jsonl", [line(0), line(1), line(2)])
    for until, known in (("2026-01-08T13:00:00", [True, False, False]), ("2026-01-09", [True, True, False])):
        (batch,), _, _ = read(log, until=until, labels=tmp_path / "labels.csv")
        assert batch.labelled.tolist() == known
        assert batch.arrays["late"].to_pylist() == [1.0, 0.0 if known[1] else None, None]
    assert batch.known_at.tolist() == [micros("2026-01-08T12:00"), micros("2026-01-08T20:00"), 0]
    assert np.array_equal(batch.known_at > 0, batch.labelled)
