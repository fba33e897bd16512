"""Planted differences between a log and the training rows of the same ids: the share of rows, the kind, examples."""

import csv
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from fullpass.components.ingest.joins.build_index import build_index
from fullpass.components.ingest.joins.config import AsOf, Join
from fullpass.components.ingest.joins.tables import Tables
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.watch.config import TRAINING, WATCHED_AT, SkewCheck, WatchConfig
from fullpass.components.watch.log_rows import LogBatch
from fullpass.components.watch.skew import ColumnSkew, RowsOfTraining, SkewSums, judge_skew, kinds_of, rows_before
from fullpass.preprocessing.columns.raw_columns import RawColumn

ROWS = 400
START = datetime(2026, 1, 8, tzinfo=UTC)
KINDS = {"km": "number", "degrees": "number", "same": "number", "balance": "number", "rate": "number"}
KINDS |= {"asked": "string", "zone": "string", "name": "string"}


def trained_rows():
    """The training data: a row per trip, of 40 customers one after the other."""
    draw = np.random.default_rng(4)
    return [
        {
            "trip": f"t{n}",
            "customer": f"c{n % 40}",
            "paid": (START + timedelta(minutes=n)).isoformat(),
            "km": round(float(draw.gamma(2, 3)), 3),
            "degrees": round(float(draw.normal(12, 8)), 4),
            "same": round(float(draw.normal()), 6),
            "balance": round(float(draw.normal(100, 50)), 2),
            "rate": round(float(draw.uniform(1, 2)), 4),
            "asked": (START + timedelta(minutes=n)).strftime("%Y-%m-%d %H:%M:%S"),
            "zone": f"z{n % 7}",
            "name": f"n{n}",
        }
        for n in range(ROWS)
    ]


def planted(rows):
    """Returns what the model saw: what differs is planted from row 100 on, but the stale value, in every row."""
    seen = []
    for n, row in enumerate(rows):
        late = n >= 100
        asked = datetime.fromisoformat(row["asked"]) + timedelta(hours=1 if late else 0)
        seen.append(
            row
            | {
                "km": row["km"] * 1.609344 if late else row["km"],
                "degrees": round(row["degrees"]) if late else row["degrees"],
                "balance": rows[n - 40]["balance"] if n >= 40 else row["balance"],
                "rate": row["rate"] * (1 + n / 1000) if late else row["rate"],
                "asked": asked.strftime("%Y-%m-%d %H:%M:%S"),
                "zone": None if late and n % 2 else row["zone"],
            }
        )
    return seen


def batch_of(rows, seen, rates):
    numbers = {n: pa.array([row[n] for row in seen], pa.float32()) for n, kind in KINDS.items() if kind == "number"}
    texts = {n: pa.array([row[n] and row[n].encode() for row in seen], pa.binary()) for n in KINDS if n not in numbers}
    texts["customer"] = pa.array([row["customer"].encode() for row in seen], pa.binary())
    begin = int(START.timestamp() * 1e6)
    times = begin + np.arange(len(rows)) * 60_000_000
    none = np.zeros(len(rows), np.int64)
    ids = pa.array([row["trip"] for row in rows])
    return LogBatch(7, none, times, rates, numbers | texts, none.astype(bool), none, None, None, ids)


def index_of(folder, on, as_of=None):
    join = Join.model_validate({"source": {"format": "csv", "path": "trips.csv"}, "on": on, "duplicates": "last"})
    join = join.model_copy(update={"as_of": as_of})
    files = Tables(tuple(find_inputs(join.source, lambda name: str(folder / name))))
    columns = [RawColumn(f"{TRAINING}.{name}", kind) for name, kind in KINDS.items()]
    return build_index(TRAINING, join, files, columns, 0.0, str(folder))


@pytest.fixture
def found(tmp_path):
    """What differs, of a log whose ids are in the training data but for a tenth; and the rows before of entities."""
    rows = trained_rows()
    with (tmp_path / "trips.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, rows[0])
        out.writeheader()
        out.writerows(row for n, row in enumerate(rows) if n % 10)
    formats = {"asked": "iso"}
    trained = RowsOfTraining(index_of(tmp_path, {"log_id": "trip"}), formats, 1e-5, "customer")
    rates = np.where(np.arange(ROWS) < 200, 1.0, 0.5)
    batch, sums = batch_of(rows, planted(rows), rates), SkewSums(trained)
    for mask in (np.arange(ROWS) < 150, np.arange(ROWS) >= 150):
        sums.add(batch.chosen(mask))
    before = index_of(tmp_path, {"customer": "customer"}, AsOf(left=WATCHED_AT, right="paid", available_after="1s"))
    return sums.found, lambda column: rows_before(before, column, formats)


def weight(wanted):
    """Returns the weighed number of rows with a match; a row from the 200th on counts twice."""
    return sum((1 if n < 200 else 2) for n in range(ROWS) if n % 10 and wanted(n))


def test_shares_are_of_the_rows_with_a_match(found):
    every, late = weight(lambda n: True), weight(lambda n: n >= 100)
    shares = {column: one.differing / one.rows for (_, column), one in found[0].items()}
    assert {one.rows for one in found[0].values()} == {every}
    assert shares["same"] == shares["name"] == 0
    assert shares["km"] == shares["asked"] == shares["rate"] == pytest.approx(late / every)
    assert shares["zone"] == pytest.approx(weight(lambda n: n >= 100 and n % 2) / every)
    assert shares["balance"] == pytest.approx(weight(lambda n: n >= 40) / every, abs=0.01)


def test_each_kind_of_difference_is_told(found):
    skew, before = found
    kinds = {column: kinds_of(one, before(column)) for (_, column), one in skew.items() if one.pairs}
    assert kinds["km"] == {"unit: the log is 1.609 times training": 1.0}
    assert kinds["degrees"] == {"rounding: the log is rounded to 0 decimals": 1.0}
    assert kinds["asked"] == {"time zone: the log is +1 hours": 1.0}
    assert kinds["zone"] == {"missing in the log": 1.0}
    assert kinds["rate"] == {"other": 1.0}
    # A tenth of the training rows is not there, so the row before is an older one for these customers.
    assert kinds["balance"]["stale: the value of the row before of its entity"] > 0.85


def test_a_finding_names_share_kind_examples_and_the_first_hour(found):
    findings = {one.subject: one for one in judge_skew(found[0], 7, SkewCheck(policy="stop"), found[1])}
    assert set(findings) == {"km", "degrees", "asked", "zone", "rate", "balance"}
    km = findings["km"]
    assert (km.check, km.policy, km.version, km.first, km.last) == ("skew", "stop", 7, "2026-01-08T01", "2026-01-08")
    assert km.judged == "2026-01-08", "the day of the newest row that training has"
    row = trained_rows()[101]
    assert f"t101: the model saw {row['km'] * 1.609344:.6g}, training has {row['km']:.6g}" in km.text
    assert "the model saw nothing, training has z3" in findings["zone"].text
    assert "the model saw 2026-01-08T02:41:00.000000, training has 2026-01-08T01:41:00" in findings["asked"].text
    assert list(judge_skew(found[0], 8, SkewCheck())) == []
    assert "km" not in {one.subject for one in judge_skew(found[0], 7, SkewCheck(max_share=0.9))}


def test_parts_come_together(found):
    one = found[0][7, "km"]
    both = one.join(ColumnSkew(10.0, 0.0))
    assert (both.rows, both.differing, both.first) == (one.rows + 10, one.differing, one.first)
    assert ColumnSkew(10.0, 0.0).join(one).last == one.last


def test_training_rows_are_found_by_the_id_of_the_labels_or_the_one_that_is_named():
    labels = {"source": {"format": "csv", "path": "l.csv"}, "on": "trip"}
    assert WatchConfig.model_validate({"labels": labels}).training_id is None
    assert WatchConfig.model_validate({"labels": labels, "skew": "stop"}).training_id == "trip"
    assert WatchConfig.model_validate({"skew": {"on": "id"}}).training_id == "id"
    with pytest.raises(ValueError, match="entity and at belong together"):
        SkewCheck(entity="customer")
