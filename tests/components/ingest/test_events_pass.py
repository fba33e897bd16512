"""Lists of the earlier rows of an entity, against loops over the rows of the files."""

import json
import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.events_pass import with_histories
from fullpass.components.ingest.history import event_index
from fullpass.components.ingest.ingest import finish_ingestion, ingest_files
from fullpass.components.ingest.ingestion import ingestion_of, with_joins
from fullpass.components.ingest.readers.rows import WHOLE
from fullpass.components.ingest.spans.ingest_request import KnownSpan, read_request
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES
from tests.components.ingest.reading_tools import ingest_config_of, ingested_parts, request_of

TRIPS = {"entity": "who", "at": "when", "columns": ["fare", "shop"]}
FARE = RawColumn("trips.fare", "number", many=True)
SHOP = RawColumn("trips.shop", "string", many=True, token=True)
COLUMNS = (RawColumn("trips.at", "number", many=True), FARE, SHOP, RawColumn("id", "number"))
START = datetime(2024, 1, 10, tzinfo=UTC)


def requested(folder, data, columns=COLUMNS, span=None, known=()):
    """Returns the request for a window as the executor reads it, without the spans that are known."""
    declared = DataConfig.model_validate({"source": {"format": "csv", "path": "{YYYY}-{MM}-{DD}.csv"}, **data})
    request = request_of(folder, declared, ingest_config_of(declared), columns, span, known)
    return request, read_request(request.to_json(known=known))


def ingested(folder, request):
    """Returns the columns of all usable rows by id, the bad rows, the counts, and the files read for events."""
    made = [ingestion_of(request, span, str(folder)) for span in request.spans]
    work = f"{folder}/work-{len(list(folder.iterdir()))}"
    made = with_histories(with_joins(made, request, f"{work}/joins"), request, f"{work}/history")
    found, bad, counts = {}, [], {}
    for ingestion in made:
        for reading, tables in ingested_parts(ingestion):
            found |= {int(row["id"]): row for table in tables for row in table.to_pylist()}
            bad += reading.take_bad()
            for name, counted in reading.histories.items():
                for key, number in counted.items():
                    counts[name, key] = counts.get((name, key), 0) + number
    read = {path.rsplit("/", 1)[-1] for path in made[0].histories[0].files}
    return found, bad, counts, read


def trip(number, who, when, fare="1", shop="x"):
    return f"{number},{who},{when},{fare},{shop}"


def write(folder, name, *rows):
    (folder / f"{name}.csv").write_text("\n".join(["id,who,when,fare,shop", *rows]) + "\n")


def days_of_trips(folder, seed=0, days=5, rows=60):
    """Writes a file per day; times repeat, entities have tokens of several spellings, cells are missing."""
    draw, of_day, number = random.Random(seed), {}, 0
    for day in range(days):
        for _ in range(rows):
            when = START + timedelta(days=day, minutes=60 * draw.randrange(24))
            zone = draw.choice([0, 2])  # an offset of two hours, which may name the day before
            written = (when + timedelta(hours=zone)).isoformat().replace("+00:00", f"+{zone:02d}:00")
            who = draw.choice(["7", "7.0", "ann", "bob", ""])
            fare, shop = draw.choice(["", "2.5", "4", "10"]), draw.choice(["", "x", "y", "8.0"])
            of_day.setdefault(day, []).append((number, who, written, fare, shop, when))
            number += 1
    for day, trips in of_day.items():
        write(folder, f"{START + timedelta(days=day):%Y-%m-%d}", *(trip(*row[:5]) for row in trips))
    return of_day


def lists_by_loop(of_day, *, within, max_length, delay=timedelta(), before):
    """Returns id -> (ages, fares, shops) by a loop over all rows for every row."""
    expected = {}
    for day, trips in of_day.items():
        for number, who, _, _, _, when in trips:
            events = []
            for other_day, others in of_day.items():
                for _, whose, _, fare, shop, moment in others:
                    same = who != "" and who.removesuffix(".0") == whose.removesuffix(".0")
                    age = when - moment
                    seen = day - before <= other_day <= day and timedelta() < age >= delay
                    if same and seen and (within is None or age <= within):
                        events.append((moment, age.total_seconds(), fare, shop))
            events.sort(key=lambda event: event[0])
            expected[number] = [
                [float(age) for _, age, _, _ in events[-max_length:]],
                [float(fare) if fare else None for _, _, fare, _ in events[-max_length:]],
                [shop.removesuffix(".0") for _, _, _, shop in events[-max_length:]],
            ]
    return expected


def plain(row):
    fares = [None if np.isnan(fare) else fare for fare in row["trips.fare"] or ()]
    return [row["trips.at"] or [], fares, [shop.decode() for shop in row["trips.shop"] or ()]]


@pytest.mark.integration
@pytest.mark.parametrize(("within", "hours"), [("1d", 0), ("30h", 2), (None, 0)])
@pytest.mark.parametrize("max_length", [3, 1000])
def test_lists_equal_a_loop_over_all_rows(tmp_path, within, hours, max_length):
    of_day = days_of_trips(tmp_path)
    trips = {**TRIPS, "within": within, "max_length": max_length, "available_after": f"{hours}h"}
    data = {"history": {"trips": trips}, "window": {"spans": "all"}}
    _, request = requested(tmp_path, data)
    found, bad, counts, _ = ingested(tmp_path, request)
    limit = {"1d": timedelta(days=1), "30h": timedelta(hours=30), None: None}[within]
    seen = {"within": limit, "delay": timedelta(hours=hours), "before": {"1d": 2, "30h": 3, None: 99}[within]}
    expected = lists_by_loop(of_day, max_length=max_length, **seen)
    whole = lists_by_loop(of_day, max_length=10_000, **seen)
    assert not bad and {number: plain(row) for number, row in found.items()} == expected
    assert any(len(ages) > 1 and len(set(ages)) < len(ages) for ages, _, _ in expected.values()), "no ties"
    assert counts["trips", "cut"] == sum(len(ages) > max_length for ages, _, _ in whole.values())
    assert counts["trips", "without"] == sum(not who for trips in of_day.values() for _, who, *_ in trips)


@pytest.mark.integration
def test_a_span_alone_has_the_lists_of_all_spans_together_and_reads_only_the_days_within(tmp_path):
    days_of_trips(tmp_path, seed=1, days=6)
    late = trip(900, "ann", (START + timedelta(days=4, hours=12)).isoformat(), "99")  # arrives with the last day
    path = tmp_path / "2024-01-15.csv"
    path.write_text(f"{path.read_text()}{late}\n")
    data = {"history": {"trips": {**TRIPS, "within": "1d"}}, "window": {"spans": "all"}}
    every, all_anew = requested(tmp_path, data)
    together, _, _, _ = ingested(tmp_path, all_anew)
    known = [KnownSpan(span.number, span.fingerprint, 0) for span in every.spans[:-1]]
    _, request = requested(tmp_path, data, known=known)
    assert [span.label for span in request.spans] == ["2024-01-15"]
    alone, _, _, read = ingested(tmp_path, request)
    assert read == {"2024-01-13.csv", "2024-01-14.csv", "2024-01-15.csv"}
    assert {n: plain(row) for n, row in alone.items()} == {n: plain(together[n]) for n in alone}
    seen_by = [n for n, row in together.items() if 99.0 in (row["trips.fare"] or ())]
    assert seen_by and {n >= 300 for n in seen_by} == {True}, "an event is seen before its day arrives"


def test_a_span_that_sees_a_changed_day_is_ingested_again_and_no_other(tmp_path):
    days_of_trips(tmp_path, days=6)
    data = {"history": {"trips": {**TRIPS, "within": "1d"}}, "window": {"spans": "all"}}
    before, _ = requested(tmp_path, data)
    known = [KnownSpan(span.number, span.fingerprint, 0) for span in before.spans]
    path = tmp_path / "2024-01-11.csv"
    path.write_text(path.read_text() + trip(999, "ann", "2024-01-11") + "\n")
    _, request = requested(tmp_path, data, known=known)
    assert [span.label for span in request.spans] == ["2024-01-11", "2024-01-12", "2024-01-13"]
    assert [span.label for span in request.past] == ["2024-01-10"]


def test_an_unreadable_date_of_one_join_leaves_the_other_rows_of_a_file_with_many_spans_to_the_next(tmp_path):
    (tmp_path / "all.csv").write_text(
        "id,who,when,fare,shop,seen\n"
        "1,ann,2024-01-10T01:00,1,x,soon\n"
        "2,ann,2024-01-10T02:00,2,x,2024-01-10\n"
        "3,ann,2024-01-11T02:00,4,y,2024-01-11\n"
    )
    (tmp_path / "rates.csv").write_text("who,on,rate\nann,2024-01-01,7\n")
    (tmp_path / "shops.csv").write_text("shop,size\nx,10\ny,20\n")
    data = {
        "source": {"format": "csv", "path": "all.csv"},
        "span": {"column": "when"},
        "window": {"spans": "all"},
        "joins": {
            "rates": {
                "source": {"format": "csv", "path": "rates.csv"},
                "on": "who",
                "as_of": {"left": "seen", "right": "on"},
            },
            "shops": {"source": {"format": "csv", "path": "shops.csv"}, "on": "shop"},
        },
        "history": {"trips": {**TRIPS, "columns": ["shops.size", "rates.rate"]}},
    }
    names = ("trips.at", "trips.shops.size", "trips.rates.rate")
    columns = (*(RawColumn(name, "number", many=True) for name in names), RawColumn("id", "number"))
    found, bad, _, _ = ingested(tmp_path, requested(tmp_path, data, columns)[1])
    assert [(row.row, row.column) for row in bad] == [(2, "seen")]
    assert {number: (row["trips.shops.size"], row["trips.rates.rate"]) for number, row in found.items()} == {
        2: (None, None),
        3: ([10.0], [7.0]),
    }


def test_spans_of_a_column_see_the_rows_before_them_in_the_same_file(tmp_path):
    of_day = days_of_trips(tmp_path)
    rows = [trip(*row[:2], row[5].isoformat(), *row[3:5]) for trips in of_day.values() for row in trips]
    random.Random(2).shuffle(rows)
    (tmp_path / "all").mkdir()
    write(tmp_path / "all", "trips", *rows)
    source = {"format": "csv", "path": "all/trips.csv"}
    data = {"source": source, "span": {"column": "when"}, "history": {"trips": {**TRIPS, "within": "1d"}}}
    found, _, _, _ = ingested(tmp_path, requested(tmp_path, data, span="2024-01-12")[1])
    expected = lists_by_loop(of_day, within=timedelta(days=1), max_length=200, before=2)
    assert len(found) == 60
    for number, row in found.items():  # rows of one time are in the order of the file
        assert [sorted(map(str, cells)) for cells in plain(row)] == [sorted(map(str, c)) for c in expected[number]]
        assert plain(row)[0] == expected[number][0]


def one_day(folder, *rows, columns=COLUMNS, **data):
    write(folder, "2024-01-10", *rows)
    return ingested(folder, requested(folder, data, columns)[1])


def test_an_event_counts_from_its_delay_on(tmp_path):
    rows = [trip(n, "ann", f"2024-01-10T0{hour}:00") for n, hour in enumerate([1, 2, 3, 4])]
    history = {"trips": {**TRIPS, "available_after": "2h", "within": "3h"}}
    found, _, _, _ = one_day(tmp_path, *rows, history=history)
    assert [found[n]["trips.at"] for n in range(4)] == [None, None, [2 * 3600.0], [3 * 3600.0, 2 * 3600.0]]


def test_the_age_of_an_old_event_is_not_below_the_true_one(tmp_path):
    """float32 holds 31,536,001 s (365 days and a second) as 31,536,000, within 365d. Ages are rounded up instead."""
    whens = ["2023-01-10T11:59:59", "2023-01-10T12:00:00", "2024-01-10T11:59:59.7", "2024-01-10T12:00:00"]
    found, _, _, _ = one_day(
        tmp_path, *(trip(n, "ann", when) for n, when in enumerate(whens)), history={"trips": TRIPS}
    )
    ages = found[3]["trips.at"]
    assert ages[:2] == [31_536_002.0, 31_536_000.0] and 0.3 <= ages[2] < 0.3 + 1e-7


def test_the_label_of_a_row_changes_only_the_lists_of_later_rows(tmp_path):
    rows = [
        ("ann", "2024-01-10T01:00"),
        ("ann", "2024-01-10T02:00"),
        ("ann", "2024-01-10T02:00"),
        ("ann", "2024-01-10T03"),
    ]
    lists = []
    for flipped in ("1", "0"):
        trips = [trip(n, who, f"{when}:00"[:16], flipped if n == 1 else "0") for n, (who, when) in enumerate(rows)]
        lists.append(one_day(tmp_path, *trips, history={"trips": TRIPS})[0])
    changed = [n for n in range(4) if lists[0][n]["trips.fare"] != lists[1][n]["trips.fare"]]
    assert changed == [3]


def test_events_hold_derived_and_joined_columns(tmp_path):
    (tmp_path / "shops.csv").write_text("shop,town\nx,Rome\ny,Oslo\n")
    rows = [trip(0, "ann", "2024-01-10T01:00", "5", "x"), trip(1, "ann", "2024-01-10T02:00", "", "y"),
            trip(2, "ann", "2024-01-10T03:00")]  # fmt: skip
    many = {"trips.dear": "number", "trips.shops.town": "string", "trips.at": "number"}
    columns = (*(RawColumn(n, k, many=True, token=k == "string") for n, k in many.items()),
               RawColumn("fare", "number"), RawColumn("id", "number"))  # fmt: skip
    found, _, _, _ = one_day(
        tmp_path,
        *rows,
        columns=columns,
        derive={"dear": "fare > 4"},
        joins={"shops": {"source": {"format": "csv", "path": "shops.csv"}, "on": "shop"}},
        history={"trips": {"entity": "who", "at": "when", "columns": ["dear", "shops.town"]}},
    )
    assert found[2]["trips.shops.town"] == [b"Rome", b"Oslo"]
    assert found[2]["trips.dear"][0] == 1 and np.isnan(found[2]["trips.dear"][1])


def test_a_derived_text_in_a_list_of_numbers_names_the_fix(tmp_path):
    columns = (RawColumn("trips.name", "number", many=True), RawColumn("shop", "string"), *COLUMNS[:1])
    history = {"trips": {"entity": "who", "at": "when", "columns": ["name"]}}
    with pytest.raises(UserError, match=r"data\.history\.trips: name gives text.*types: \{trips\.name: string\}"):
        one_day(
            tmp_path, trip(0, "ann", "2024-01-10"), columns=columns, history=history, derive={"name": "lower(shop)"}
        )


def test_rows_with_unreadable_cells_are_bad_and_no_events(tmp_path):
    rows = [trip(0, "ann", "yesterday"), trip(1, "ann", "2024-01-10T01:00", "much"), trip(2, "ann", ""),
            trip(3, "ann", "2024-01-10T02:00", "3"), trip(4, "ann", "2024-01-10T03:00")]  # fmt: skip
    found, bad, counts, _ = one_day(tmp_path, *rows, history={"trips": TRIPS})
    assert [(row.row, row.column, row.reason, row.text) for row in bad] == [
        (2, "when", "no date of the format iso", "yesterday"), (3, "fare", "not a number", "much"),
    ]  # fmt: skip
    assert found[2]["trips.at"] is None and found[4]["trips.fare"] == [3.0]
    assert counts["trips", "without"] == 1


def test_no_events_at_all(tmp_path):
    found, _, counts, _ = one_day(tmp_path, trip(0, "", "2024-01-10"), history={"trips": TRIPS})
    assert found[0]["trips.at"] is None and found[0]["trips.shop"] is None
    assert counts["trips", "without"] == 1 and json.dumps(found[0]["id"]) == "0.0"


def test_json_lines_need_no_list_of_their_own(tmp_path):
    rows = [{"id": i, "who": "a", "when": f"2024-01-10T00:{i:02d}", "fare": i, "shop": "x"} for i in range(40)]
    (tmp_path / "2024-01-10.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source = {"format": "jsonl", "path": "{YYYY}-{MM}-{DD}.jsonl"}
    _, request = requested(tmp_path, {"source": source, "history": {"trips": TRIPS}})
    made = [ingestion_of(request, span, str(tmp_path / "made")) for span in request.spans]
    made = with_histories(made, request, str(tmp_path / "history"))
    with local_pipeline() as pipeline:
        ingest_files(made, pipeline)
    assert sum(finish_ingestion(made[0]).written.values()) == 40


def test_the_lists_of_a_history_do_not_depend_on_how_far_another_reaches(tmp_path):
    for day in range(5):
        rows = [trip(10 * day + i, "ann", (START + timedelta(days=day, hours=i)).isoformat(), day) for i in range(3)]
        # An event of the last day that arrives with the first: beyond the reach of 12 hours, and within all spans.
        late = [trip(99, "ann", (START + timedelta(days=4)).isoformat(), "99")] if day == 0 else []
        write(tmp_path, f"{START + timedelta(days=day):%Y-%m-%d}", *rows, *late)
    near = {"trips": {**TRIPS, "within": "12h"}}
    long = (*COLUMNS, *(RawColumn(f"long.{name}", "number", many=True) for name in ("at", "fare")))
    all_spans = {"long": {**TRIPS, "columns": ["fare"]}}
    window = {"window": {"spans": "all"}}
    alone, _, _, _ = ingested(tmp_path, requested(tmp_path, {"history": near, **window})[1])
    beside, _, _, _ = ingested(tmp_path, requested(tmp_path, {"history": {**near, **all_spans}, **window}, long)[1])
    assert {number: plain(row) for number, row in beside.items()} == {n: plain(row) for n, row in alone.items()}
    assert plain(alone[42])[1] == [4.0, 4.0] and beside[42]["long.fare"][-4:] == [3.0, 99.0, 4.0, 4.0]


@pytest.mark.integration
def test_lists_of_tokens_hold_tokens_whatever_their_column_is_for_others(tmp_path):
    (tmp_path / "all").mkdir()
    shops = ["3", "3.0", "4.00", "4", "x"]
    rows = [trip(i, "ann", (START + timedelta(hours=i)).isoformat(), "1", shop) for i, shop in enumerate(shops)]
    write(tmp_path / "all", "trips", *rows)
    history = {"trips": {**TRIPS, "columns": ["shop", "lower_shop"]}}
    source = {"format": "csv", "path": "all/trips.csv"}
    data = {"source": source, "history": history, "derive": {"lower_shop": "lower(shop)"}}
    lower = RawColumn("trips.lower_shop", "string", many=True, token=True)
    columns = (COLUMNS[0], SHOP, lower, RawColumn("id", "number"), RawColumn("shop", "string"))
    found, _, _, _ = ingested(tmp_path, requested(tmp_path, data, columns)[1])
    for name in ("trips.shop", "trips.lower_shop"):
        assert found[4][name] == [b"3", b"3", b"4", b"4"], name
    assert found[1]["shop"] == b"3.0"


@pytest.mark.integration
def test_batches_are_bounded_by_the_bytes_of_lists_too(tmp_path, monkeypatch):
    shops = [f"{i % 10}" * (1 << 20) for i in range(14)]
    (tmp_path / "all").mkdir()
    rows = [trip(i, "ann", (START + timedelta(hours=i)).isoformat(), "1", shop) for i, shop in enumerate(shops)]
    write(tmp_path / "all", "trips", *rows)
    data = {"source": {"format": "csv", "path": "all/trips.csv"}, "history": {"trips": TRIPS}}
    _, request = requested(tmp_path, data)
    (ingestion,) = with_histories(
        [ingestion_of(request, request.spans[0], str(tmp_path))], request, f"{tmp_path}/history"
    )
    reading, seen = ingestion.reading(ingestion.files[0], WHOLE), 0
    for batch, arrays, _ in ingestion.batches(reading):
        lists = arrays["trips.shop"].to_pylist()
        assert sum(len(shop) for cells in lists for shop in cells or ()) <= BATCH_BYTES
        assert [[shop.decode() for shop in cells or ()] for cells in lists] == [
            shops[: seen + i] for i in range(len(batch.numbers))
        ]
        seen += len(batch.numbers)
    assert seen == 14
    monkeypatch.setattr(event_index, "_MOST_BYTES", 10 << 20)
    limit = r"trips.csv, row 12: its lists of data\.history\.trips have 0\.0 GB; an example holds less than 0\.0 GB"
    with pytest.raises(UserError, match=limit):
        list(ingestion.batches(ingestion.reading(ingestion.files[0], WHOLE)))
