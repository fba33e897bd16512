"""The span of a file, the spans of a run, and the conditions for ingesting a span again."""

from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.joins.tables import Tables
from fullpass.components.ingest.readers.read_source import columns_of
from fullpass.components.ingest.sources import storage
from fullpass.components.ingest.sources.config import CsvSource
from fullpass.components.ingest.sources.files import SourceFile, resolve_path
from fullpass.components.ingest.sources.storage import find
from fullpass.components.ingest.spans.ingest_request import KnownSpan, Request, digest_of_code, read_request, spans_read
from fullpass.components.ingest.spans.span_files import Span
from fullpass.components.ingest.spans.span_pattern import label_of, number_of, parse_pattern, parse_span, ranges
from fullpass.components.ingest.spans.spans import SpanNotFoundError, Window, find_window, has_spans, select_window
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.components.ingest.reading_tools import ingest_config_of


class StoreInMemory(MemoryFileSystem):
    """The memory of fsspec under another name, the `protocol` of a subclass, for what a driver does its own way."""

    def __init_subclass__(cls):
        fsspec.register_implementation(cls.protocol, cls, clobber=True)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace(f"{cls.protocol}://", "memory://"))


def window(folder: Path, path, asked=None, spans=1):
    data = DataConfig.model_validate({"source": {"format": "csv", "path": path}, "window": {"spans": spans}})
    return find_window(data, lambda p: resolve_path(p, folder), asked)


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"a\n{name}\n")


def names(found: Window) -> dict[str, list[str]]:
    return {found.label(span.number): [Path(file.path).name for file in span.files] for span in found.spans}


@given(st.dates(date(1970, 1, 1), date(2200, 1, 1)), st.integers(0, 23))
def test_numbers_are_those_of_numpy_and_labels_lead_back(day, hour):
    moment = np.datetime64(datetime(day.year, day.month, day.day, hour))
    parts = [day.year, day.month, day.day, hour]
    for unit, code, size in (("month", "M", 2), ("day", "D", 3), ("hour", "h", 4)):
        number = number_of(unit, parts[:size])
        assert number == moment.astype(f"datetime64[{code}]").astype(int)
        assert label_of(unit, number) == str(moment.astype(f"datetime64[{code}]"))
        assert parse_span(unit, label_of(unit, number)) == number == parse_span(unit, str(number))


def test_day_numbers_are_those_of_tfx():
    from tfx.components.example_gen import utils

    assert utils.date_to_span_number(2013, 1, 5) == number_of("day", [2013, 1, 5]) == 15710


@pytest.mark.parametrize(
    ("written", "path", "expected"),
    [
        ("d/{YYYY}-{MM}-{DD}/*.csv", "d/2013-01-05/a.csv", (15710, 0)),
        ("d/{YYYY}{MM}{DD}*.csv", "d/20130105120000.csv", (15710, 0)),
        ("d/{YYYY}/{YYYY}-{MM}.csv", "d/2013/2013-02.csv", (517, 0)),
        ("d/{YYYY}/{YYYY}-{MM}.csv", "d/2014/2013-02.csv", None),
        ("y={YYYY}/m={MM}/d={DD}/*", "y=2013/m=1/d=5/a.csv", (15710, 0)),
        ("y={YYYY}/m={MM}/d={DD}/*", "y=2013/m=01/d=05/a.csv", (15710, 0)),
        ("{YYYY}{MM}{DD}T{HH}.csv", "20130105T07.csv", (15710 * 24 + 7, 0)),
        ("trips-{YYYY}.csv", "trips-2013.csv", (2013, 0)),
        ("**/span-{SPAN}.csv", "a/b/span-12.csv", (12, 0)),
        ("**/span-{SPAN}.csv", "span-12.csv", (12, 0)),
        ("span-{SPAN:3}.csv", "span-012.csv", (12, 0)),
        ("span-{SPAN:3}.csv", "span-0123.csv", None),
        ("span{SPAN}*.csv", "span12-part0.csv", (12, 0)),
        ("{SPAN:2}{VERSION:1}.csv", "123.csv", (12, 3)),
        ("s{SPAN}/v{VERSION}/[ab]?.csv", "s7/v10/b1.csv", (7, 10)),
        ("s{SPAN}/v{VERSION}/[ab]?.csv", "s7/v10/c1.csv", None),
    ],
)
def test_the_fields_of_a_path(written, path, expected):
    assert parse_pattern(written, "", written).span_and_version(path) == expected


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("{SPAN}/{YYYY}.csv", r"has \{SPAN\} and \{YYYY\}"),
        ("{SPAN}{VERSION}.csv", r"the end of \{SPAN\} is ambiguous"),
        ("1{SPAN}.csv", r"the end of \{SPAN\} is ambiguous.*\{SPAN:4\}"),
        ("{YYYY}-{DD}.csv", r"has \{DD\} but no \{MM\}"),
        ("{MM}.csv", r"has \{MM\} but no \{YYYY\}"),
        ("v{VERSION}.csv", r"\{VERSION\} but no \{SPAN\}"),
        ("{span}.csv", 'Did you mean "SPAN"'),
        ("{YYYY:4}.csv", "only SPAN and VERSION take a width"),
        ("*_*_*_*_{SPAN}.csv", "more than 3 stars"),
        ("{SPAN}/" + "?*" * 25 + "b", "more than 3 stars"),
        ("{SPAN}/" + "[!b]*" * 20 + ".csv", "more than 3 stars"),
        ("{SPAN}/" + "**x" * 12, "more than 3 stars"),
        ("{SPAN}/" + "**/a/" * 4 + "x.csv", "more than 3 times"),
    ],
)
def test_patterns_that_cannot_be_are_refused(written, says):
    with pytest.raises(UserError, match=says):
        parse_pattern(written, "", written)


def test_a_file_that_is_no_date_is_named(tmp_path):
    touch(tmp_path, "2013-02-30.csv")
    with pytest.raises(UserError, match=r"2013-02-30\.csv matches '.*', but its date is invalid"):
        window(tmp_path, "{YYYY}-{MM}-{DD}.csv")


def test_spans_are_found_in_files_folders_globs_and_lists(tmp_path):
    touch(
        tmp_path, "2013-01-05/b.csv", "2013-01-05/a.csv", "2013-01-06/a.csv", "2013-01-06/_no.csv", "x/2013-01-06.csv"
    )
    expected = {"2013-01-05": ["a.csv", "b.csv"], "2013-01-06": ["a.csv"]}
    assert names(window(tmp_path, "{YYYY}-{MM}-{DD}", spans="all")) == expected
    assert names(window(tmp_path, "{YYYY}-{MM}-{DD}/a*.csv", spans="all")) == {k: ["a.csv"] for k in expected}
    both = window(tmp_path, ["{YYYY}-{MM}-{DD}/a.csv", "x/{YYYY}-{MM}-{DD}.csv"], spans="all")
    assert names(both) == {"2013-01-05": ["a.csv"], "2013-01-06": ["a.csv", "2013-01-06.csv"]}


def test_a_name_with_brackets_is_written_as_a_pattern(tmp_path):
    touch(tmp_path, "x[1]/2013-01-05.csv", "x1/2013-01-06.csv", "x^/2013-01-07.csv")
    assert [*names(window(tmp_path, "x[[]1]/{YYYY}-{MM}-{DD}.csv", spans="all"))] == ["2013-01-05"]
    assert [*names(window(tmp_path, "x[^1]/{YYYY}-{MM}-{DD}.csv", spans="all"))] == ["2013-01-06", "2013-01-07"]
    assert [*names(window(tmp_path, "x[!1]/{YYYY}-{MM}-{DD}.csv", spans="all"))] == ["2013-01-07"]
    with pytest.raises(UserError, match=r"matches no file. \[2\] stands for one .*write x\[\[\]2\]/\{YYYY\}.csv"):
        window(tmp_path, "x[2]/{YYYY}.csv")


def test_spans_are_found_at_addresses():
    memory = fsspec.filesystem("memory")
    for name in ("2013-01", "2013-02", "other"):
        memory.pipe(f"/spans-test/{name}.csv", b"a\n1\n")
    found = window(Path("/"), "memory://spans-test/{YYYY}-{MM}.csv", spans="all")
    assert list(names(found)) == ["2013-01", "2013-02"]


def test_spans_that_arrive_at_an_address_are_seen_by_a_process_that_looked_before(monkeypatch):
    """Drivers of object stores cache a listing for the life of the process, and a scheduler lives for months."""

    class Remembering(StoreInMemory):
        protocol = "remembering"
        listings: dict = {}
        asked = 0

        def ls(self, path, detail=True, **more):
            if path not in self.listings:
                type(self).asked += 1
                self.listings[path] = super().ls(path, detail=True, **more)
            return self.listings[path]

        def invalidate_cache(self, path=None):
            self.listings.clear()

    now = 100.0
    monkeypatch.setattr(storage, "monotonic", lambda: now)
    memory = fsspec.filesystem("memory")
    look = lambda: list(names(window(Path("/"), "remembering://arrive/{YYYY}-{MM}.csv", spans="all")))  # noqa: E731
    memory.pipe("/arrive/2013-01.csv", b"a\n1\n")
    assert look() == ["2013-01"]
    memory.pipe("/arrive/2013-02.csv", b"a\n1\n")
    now += 60
    before = Remembering.asked
    assert look() == ["2013-01", "2013-02"]
    assert Remembering.asked == before + 1, "one look lists a folder once, however many spans are in it"


def test_a_file_is_the_same_whether_it_was_listed_or_asked_for():
    """s3fs returns more details for a listed file; a cache keyed by these would miss."""

    class Telling(StoreInMemory):
        protocol = "telling"
        more: dict = {}

        def info(self, path, **more):
            content = self.store[self._strip_protocol(path)].getvalue()
            return {"name": path, "size": len(content), "type": "file", "ETag": f'"{hash(content)}"', **self.more}

    fsspec.filesystem("memory").pipe("/tells/a.csv", b"a\n1\n")
    [asked] = find("telling://tells/a.csv")
    Telling.more = {"Key": "tells/a.csv", "StorageClass": "STANDARD"}
    [listed] = find("telling://tells/a.csv")
    assert listed == asked
    fsspec.filesystem("memory").pipe("/tells/a.csv", b"a\n2\n")
    assert find("telling://tells/a.csv") != [asked]


def test_a_folder_that_a_store_could_not_list_is_no_folder_without_files():
    """Drivers omit such a folder from a glob, and its span would look as if it did not exist."""

    class Failing(StoreInMemory):
        protocol = "failing"
        down = False

        def ls(self, path, detail=True, **more):
            if self.down and path.rstrip("/").endswith("/02"):
                raise OSError("503 SlowDown")
            return super().ls(path, detail, **more)

    for month in ("01", "02"):
        fsspec.filesystem("memory").pipe(f"/fails/2013/{month}/a.csv", b"a\n1\n")
    path = "failing://fails/{YYYY}/{MM}/*.csv"
    assert list(names(window(Path("/"), path, spans="all"))) == ["2013-01", "2013-02"]
    Failing.down = True
    with pytest.raises(UserError, match="failing://fails/.*503 SlowDown"):
        window(Path("/"), path, spans="all")


def test_hive_folders_are_spans_and_columns(tmp_path):
    touch(tmp_path, "year=2013/month=1/a.csv", "year=2013/month=11/a.csv")
    path = "year={YYYY}/month={MM}/*.csv"
    found = window(tmp_path, path, spans="all")
    assert list(names(found)) == ["2013-01", "2013-11"]
    assert columns_of(found.files[0], CsvSource(format="csv", path=path)) == ["a", "year", "month"]


def test_the_newest_version_of_a_span_is_taken(tmp_path):
    touch(tmp_path, "s1/v2/a.csv", "s1/v10/b.csv", "s2/v1/a.csv")
    found = window(tmp_path, "s{SPAN}/v{VERSION}/*.csv", spans=2)
    assert names(found) == {"1": ["b.csv"], "2": ["a.csv"]}
    assert [span.version for span in found.spans] == [10, 1]


def test_splits_arrive_together(tmp_path):
    path = {"train": "train/{SPAN}-v{VERSION}.csv", "eval": "eval/{SPAN}-v{VERSION}.csv"}
    touch(tmp_path, "train/1-v1.csv", "eval/1-v1.csv", "train/2-v1.csv")
    with pytest.raises(UserError, match="2 has files for 'train', but none for 'eval'"):
        window(tmp_path, path)
    touch(tmp_path, "eval/2-v2.csv")
    with pytest.raises(UserError, match=r"newest versions of span 2 differ: 1 of 'train.*, 2 of 'eval"):
        window(tmp_path, path)
    touch(tmp_path, "train/2-v2.csv")
    assert [file.split for file in window(tmp_path, path).files] == ["train", "eval"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (["{SPAN}.csv", "all.csv"], "'all.csv' has no span fields"),
        (["{SPAN}.csv", "{YYYY}-{MM}.csv"], r"a span per number \(5\), but .* one per month \(2013-01\)"),
        ("none-{SPAN}.csv", r"matches no file.*Looked for: .*none-\[0-9\]\*\.csv"),
        (["{SPAN}.csv", "[12].csv", "{SPAN}.csv"], "has no span fields|named twice"),
        (["{SPAN}.csv", "*{SPAN}.csv"], "named twice"),
    ],
)
def test_paths_that_do_not_go_together_are_refused(tmp_path, path, says):
    touch(tmp_path, "1.csv", "2.csv", "2013-01.csv", "all.csv")
    with pytest.raises(UserError, match=says):
        window(tmp_path, path)


def days(*labels: str) -> dict[int, Span]:
    return {n: Span(n, ()) for n in (parse_span("day", label) for label in labels)}


THERE = days("2013-01-01", "2013-01-02", "2013-01-04", "2013-01-05")


@pytest.mark.parametrize(
    ("asked", "size", "expected", "missing"),
    [
        (None, 1, ["05"], []),
        ("latest", 2, ["04", "05"], []),
        ("2013-01-05", 4, ["02", "04", "05"], ["03"]),
        ("15709", 2, ["04"], ["03"]),
        ("2013-01-04", 9, ["01", "02", "04"], ["03"]),
        ("2013-01-02:2013-01-05", 1, ["02", "04", "05"], ["03"]),
        (":2013-01-02", 1, ["01", "02"], []),
        ("2013-01-04:", 1, ["04", "05"], []),
        ("2013-01-04:latest", 1, ["04", "05"], []),
        (None, "all", ["01", "02", "04", "05"], ["03"]),
    ],
)
def test_windows_are_consecutive_spans_and_gaps_are_said(asked, size, expected, missing):
    found = select_window("day", THERE, size, asked)
    assert [found.label(span.number)[-2:] for span in found.spans] == expected
    assert [found.label(number)[-2:] for number in found.missing] == missing
    assert any("missing: 2013-01-03" in line for line in found.lines()) == bool(missing)


@pytest.mark.parametrize(
    "asked", ["2013-01-03", "2013-01-06", "2013-01-03:2013-01-05", "2013-01-01:2013-01-06", "15708"]
)
def test_a_span_that_is_not_there_is_no_other_one(asked):
    with pytest.raises(
        SpanNotFoundError, match=r"not there, and nothing was trained.*2013-01-01 to 2013-01-02, 2013-01-04 to"
    ):
        select_window("day", THERE, 30, asked)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("yesterday", "a day such as 2013-01-05, or its number"),
        ("2013-01", "a day such as"),
        ("2013-02-30", "there is no such day"),
        ("2013-01-05:2013-01-02", "comes after"),
    ],
)
def test_what_cannot_be_read_as_a_span_is_refused(asked, says):
    with pytest.raises(UserError, match=says) as error:
        select_window("day", THERE, 1, asked)
    assert not isinstance(error.value, SpanNotFoundError)


def test_a_source_without_spans_is_one_window_and_takes_no_span(tmp_path):
    touch(tmp_path, "a.csv")
    found = window(tmp_path, "*.csv", "latest")
    assert found.unit is None and len(found.files) == 1 and not found.lines()
    with pytest.raises(UserError, match="data.source has no spans"):
        window(tmp_path, "*.csv", "2013-01-05")
    assert not has_spans(DataConfig.model_validate({"source": {"format": "csv", "path": "{a b}.csv"}}))


def test_both_forms_are_shown(tmp_path):
    touch(tmp_path, "2013-01-04.csv", "2013-01-05.csv")
    (line,) = window(tmp_path, "{YYYY}-{MM}-{DD}.csv", spans=2).lines()
    assert line == "2 spans, 2013-01-04 to 2013-01-05 (span 15710); the source has 2, the newest 2013-01-05"


def test_ranges_shorten_what_is_long():
    assert ranges("number", [1, 2, 3, 7]) == "1 to 3, 7"
    assert ranges("number", range(0, 40, 2)) == "0, 2, 4, ..., 34, 36, 38"


FILE = SourceFile("/data/a.csv", None, 10, "v1")
TABLE = SourceFile("/data/t.csv", None, 10, "v1")
COLUMNS = (RawColumn("a", "number"),)


def request(file=FILE, known=(), columns=COLUMNS, path="{SPAN}.csv", version=0, table=TABLE, on="a", **data):
    joins = {"t": {"source": {"format": "csv", "path": path}, "on": on}}
    config = DataConfig.model_validate({"source": {"format": "csv", "path": path}, "joins": joins, **data})
    asked = Request(ingest_config_of(config), config.split_names, tuple(columns), gzip=False)
    tables = {"t": Tables((table,))}
    return asked.with_window(Window("number", (Span(5, (file,), version),), tables=tables), known)


def request_of_days(numbers, spans, within=None, before=0):
    """Returns the request for a window of days with a history and a table per day, and the spans that it reads."""
    source = {"format": "csv", "path": "{YYYY}-{MM}-{DD}.csv"}
    history = {} if within is None else {"past": {"entity": "a", "at": "at", "columns": ["a"], "within": f"{within}d"}}
    joins = {"t": {"source": source, "on": "a"}}
    config = ingest_config_of(DataConfig.model_validate({"source": source, "joins": joins, "history": history}))
    files = {number: SourceFile(f"/data/{number}.csv", None, 10, "v1") for number in sorted(numbers)}
    found = select_window("day", {number: Span(number, (file,)) for number, file in files.items()}, spans)
    tables = Tables(tuple(files.values()), tuple(files), before)
    asked = Request(config, ("train",), COLUMNS, gzip=False).with_window(replace(found, tables={"t": tables}), ())
    return asked, [span.number for span in spans_read(config, found)]


@given(
    st.sets(st.integers(0, 40), min_size=1, max_size=20),
    st.integers(1, 9),
    st.none() | st.integers(1, 9),
    st.integers(0, 5),
)
def test_the_spans_and_tables_that_are_read_are_those_in_reach(numbers, spans, within, before):
    asked, read = request_of_days(numbers, spans, within, before)
    own = {span.number for span in asked.spans}
    reach = 0 if within is None else within + 1
    assert read == sorted(n for n in numbers if n in own or any(0 < o - n <= reach for o in own))
    assert [span.number for span in asked.limited_to(asked.spans).past] == [n for n in read if n not in own]
    seen = asked.joined["t"].seen_by(read)
    assert seen.spans == tuple(n for n in sorted(numbers) if any(0 <= r - n <= before for r in read))


def test_a_window_is_not_compared_with_every_span_before_it(monkeypatch):
    compared = []
    monkeypatch.setattr(Request, "sees", lambda self, *pair: compared.append(pair) or False)
    asked, read = request_of_days(range(20_000), 300, within=2)
    asked.to_json()
    assert len(read) == 300 and len(compared) < 10 * 300


@pytest.mark.parametrize(
    "changed",
    [
        {"file": SourceFile("/data/a.csv", None, 11, "v1")},
        {"file": SourceFile("/data/a.csv", None, 10, "v2")},
        {"file": SourceFile("/data/b.csv", None, 10, "v1")},
        {"columns": [RawColumn("a", "string")]},
        {"split": {"method": "random", "seed": 2}},
        {"records": {"shard_mb": 1}},
        {"on": ["a", "c"]},
        {"table": SourceFile("/data/t.csv", None, 10, "v2")},
    ],
)
def test_whatever_changes_records_changes_the_fingerprint_and_is_a_new_version(changed):
    (before,) = request().spans
    known = [KnownSpan(5, before.fingerprint, 0), KnownSpan(6, "other", 4)]
    (same,) = request(known=known, path="other-{SPAN}.csv").spans
    assert (same.fingerprint, same.version) == (before.fingerprint, 0), "the pattern decides no record"
    (after,) = request(known=known, **changed).spans
    assert after.fingerprint != before.fingerprint and after.version == 1


def test_only_unknown_spans_are_asked_for():
    asked = request()
    assert read_request(asked.to_json()) == asked
    known = [KnownSpan(5, asked.spans[0].fingerprint, 0)]
    assert read_request(asked.to_json(known=known)).spans == ()


def test_the_version_of_the_path_is_the_version():
    assert request(version=7).spans[0].version == 7


BEFORE = '''"""Reads rows."""

LIMIT = 3
"""Largest number of rows."""


class Reader:
    """Reads."""

    def rows(self):
        """Yields rows."""
        return LIMIT
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Reads rows.", "Reads rows of a file.", True),
        ("Largest number", "The largest number", True),
        ('    """Reads."""\n\n', "", True),
        ("Yields rows.", "Yields rows.\n\n        In order.\n        ", True),
        ("return LIMIT", "# the limit\n        return LIMIT  # of rows", True),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("LIMIT = 3", "LIMIT = '3'", False),
        ("LIMIT = 3", "LIMIT = 3.0", False),
        ("return LIMIT", "return -LIMIT", False),
        ("return LIMIT", "LIMIT", False),
        ("LIMIT = 3", "LIMIT = None", False),
        ("def rows(self)", "def read(self)", False),
    ],
)
def test_the_digest_of_code_ignores_comments_and_docstrings(tmp_path, old, new, same):
    file, digests = tmp_path / "reader.py", []
    for text in (BEFORE, BEFORE.replace(old, new)):
        file.write_text(text)
        digests.append(digest_of_code([file]))
    assert BEFORE.replace(old, new) != BEFORE and (digests[0] == digests[1]) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x[1:]", "x[:1]"),
        ("def f():\n  if a:\n    b\n  c", "def f():\n  if a:\n    b\n  else:\n    c"),
        ("f(a, b)", "f(a)(b)"),
        ("[a, [b]]", "[a, [], b]"),
    ],
)
def test_code_of_another_structure_has_another_digest(tmp_path, one, other):
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text(one)
    second.write_text(other)
    assert digest_of_code([first]) != digest_of_code([second])
