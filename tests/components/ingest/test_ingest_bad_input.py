"""A whole ingestion of each kind of bad input: the error message, and no half-written split is left."""

import gzip
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests import REPOSITORY, warm_process
from tests.components.ingest import ingesting
from tests.components.ingest.ingesting import HASH
from tests.record_files import example, write_records

pytestmark = pytest.mark.integration
COLUMNS = RawColumn("fare", "number"), RawColumn("zone", "string")
GOOD = "fare,zone\n" + "".join(f"{i}.5,z{i}\n" for i in range(40))


def ingest(folder, source, bad_rows=0.0):
    return ingesting.ingest(folder, source, COLUMNS, split=HASH, bad_rows=bad_rows)


def csv(**options):
    return {"format": "csv", "path": "*.csv*", **options}


def nothing_is_left(folder):
    return not list((folder / "examples").glob("Split-*")) and not (folder / "out" / "ingest.json").exists()


def missing_file(folder):
    return csv(path="trips.csv")


def empty_file(folder):
    (folder / "a.csv").write_text("")
    return csv()


def header_only(folder):
    (folder / "a.csv").write_text("fare,zone\n")
    return csv()


def folder_without_matches(folder):
    (folder / "data").mkdir()
    (folder / "data" / "notes.md").write_text("fare")
    return csv(path="data")


def renamed_column(folder):
    (folder / "a.csv").write_text(GOOD)
    (folder / "b.csv").write_text(GOOD.replace("fare,zone", "fares,zone"))
    return csv()


def truncated_gzip(folder):
    packed = gzip.compress((GOOD * 50).encode())
    (folder / "a.csv").write_text(GOOD)
    (folder / "b.csv.gz").write_bytes(packed[: len(packed) // 2])
    return csv()


def corrupt_tfrecord(folder):
    write_records(folder / "a.tfrecord", [example({"fare": float(i)}) for i in range(20)])
    data = bytearray((folder / "a.tfrecord").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "a.tfrecord").write_bytes(data)
    return {"format": "tfrecord", "path": "a.tfrecord"}


def parquet_cut_short(folder):
    pq.write_table(pa.table({"fare": [1.0] * 1000, "zone": ["z"] * 1000}), folder / "a.parquet")
    data = (folder / "a.parquet").read_bytes()
    (folder / "a.parquet").write_bytes(data[: len(data) - 100])
    return {"format": "parquet", "path": "a.parquet"}


def types_that_differ(folder):
    pq.write_table(pa.table({"fare": [1.5] * 20, "zone": ["z"] * 20}), folder / "a.parquet")
    times = pa.array([0] * 20, pa.timestamp("s"))
    pq.write_table(pa.table({"fare": times, "zone": ["z"] * 20}), folder / "b.parquet")
    return {"format": "parquet", "path": "*.parquet"}


def no_password(folder):
    return {"format": "sql", "url": "postgresql://reader@localhost/x", "query": "trips", "password_env": "NO_SUCH_PW"}


def column_twice(folder):
    (folder / "a.csv").write_text(GOOD.replace("fare,zone", "fare,zone,zone"))
    return csv()


def same_file_twice(folder):
    (folder / "a.csv").write_text(GOOD)
    return csv(path=("a.csv", "*.csv"))


REFUSED = {
    missing_file: r"data.source.path: 'trips.csv' is no file. Looked for: .*trips.csv",
    empty_file: r"a.csv: the file is empty; a header line with the column names was expected",
    header_only: r"no rows in .*a.csv; only a header line, or nothing",
    folder_without_matches: r"'data' is a folder without files that end in .csv",
    renamed_column: r"""b.csv: no column 'fare'. Did you mean "fares"\? Columns of the file: fares, zone. If it was""",
    truncated_gzip: r"b.csv.gz: reading stopped: Compressed file ended .* Is the file cut short",
    corrupt_tfrecord: r"a.tfrecord: reading stopped: record \d+ is corrupt",
    parquet_cut_short: r"a.parquet: reading stopped: .*Is the file cut short",
    types_that_differ: r"b.parquet: column 'fare' is of the type timestamp\[.*\], but is read as a number. Declare a",
    no_password: r"the environment variable NO_SUCH_PW is not set.*Set it where the pipeline runs",
    column_twice: r"a.csv: column 'zone' appears twice; rename one",
    same_file_twice: r"a.csv is named twice. Every file must be read once",
}


@pytest.mark.parametrize("spoil", REFUSED, ids=lambda spoil: spoil.__name__)
def test_what_cannot_be_read_is_refused_in_words(tmp_path, monkeypatch, spoil):
    monkeypatch.delenv("NO_SUCH_PW", raising=False)
    with pytest.raises(Exception, match=REFUSED[spoil]) as error:
        ingest(tmp_path, spoil(tmp_path))
    causes = [error.value]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    assert any(isinstance(cause, UserError) for cause in causes) or "UserError" in str(error.value)
    assert nothing_is_left(tmp_path)


SPOILT_ROWS = {
    "wrong column count": (b"1,z,extra\n", "3 cells, expected 2"),
    "unparsable value": (b"free,z\n", "not a number in column 'fare'; first: {file}, row 42: 'free'"),
    "invalid UTF-8": (b"1,\xff\xfe\n", "not utf-8 in column 'zone'"),
    "oversize cell": (b"1," + b"z" * (1 << 20) + b"zz\n", "a cell longer than 1,024 kB in column 'zone'"),
    "beyond float32": (b"1e300,z\n", "outside the range of float32 in column 'fare'; first: {file}, row 42: '1e300'"),
    "quote never closed": (b'1,"z\n', "a quote that is not closed"),
}


@pytest.mark.parametrize(("row", "says"), SPOILT_ROWS.values(), ids=SPOILT_ROWS.keys())
def test_rows_over_budget_are_named_and_within_it_kept_aside(tmp_path, row, says):
    (tmp_path / "a.csv").write_bytes(GOOD.encode() + row)
    with pytest.raises(UserError) as error:
        ingest(tmp_path, csv())
    assert "1 of 41 rows cannot be used; data.bad_rows allows 0.00% of rows" in str(error.value)
    assert says.format(file=tmp_path / "a.csv") in str(error.value)
    assert nothing_is_left(tmp_path)
    manifest = ingest(tmp_path, csv(), bad_rows=0.1)
    assert (manifest.read, sum(manifest.written.values()), manifest.rows_quarantined) == (41, 40, 1)


def test_whole_numbers_beyond_int64_are_numbers_and_text(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD + "99999999999999999999,99999999999999999999\n")
    manifest = ingest(tmp_path, csv())
    assert sum(manifest.written.values()) == 41


def test_over_budget_gives_the_three_commonest_reasons_with_examples(tmp_path):
    rows = "free,z\n" * 5 + "1,2,3\n" * 4 + "1e300,z\n" * 3 + "1,2,3,4\n"
    (tmp_path / "a.csv").write_text(GOOD + rows)
    with pytest.raises(UserError) as error:
        ingest(tmp_path, csv())
    lines = str(error.value).splitlines()
    assert [line.split(" x ")[0].strip() for line in lines[1:-1]] == ["5", "4", "3"]
    assert all("; first: " in line and "row " in line for line in lines[1:-1])
    assert "raise data.bad_rows" in lines[-1]


def test_files_of_one_name_in_two_folders_are_two_files(tmp_path):
    for name in ("2023", "2024"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(GOOD)
    manifest = ingest(tmp_path, csv(path="*/a.csv"))
    assert [Path(count.path).parent.name for count in manifest.by_file] == ["2023", "2024"]
    assert [count.read for count in manifest.by_file] == [40, 40]


def test_a_full_disk_leaves_no_split(tmp_path):
    """A limit on the file size simulates a full disk: the write fails in the middle."""
    rows = "".join(f"{i},{'z' * 500}\n" for i in range(4000))
    (tmp_path / "a.csv").write_text("fare,zone\n" + rows)
    code = f"""
        import resource, signal
        from pathlib import Path
        from tests.components.ingest.test_ingest_bad_input import csv, ingest
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        ingest(Path({str(tmp_path)!r}), csv(path="a.csv"))
    """
    ran = warm_process.run([sys.executable, "-c", textwrap.dedent(code)], cwd=REPOSITORY, timeout=600)
    assert ran.returncode != 0
    assert "File too large" in ran.stderr
    assert nothing_is_left(tmp_path)
