"""A whole ingestion of each kind of bad input: the error message, and no half-written split is left."""

import gzip
import io
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.writing.manifest import MANIFEST
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
    return not list((folder / "examples").glob("Split-*")) and not (folder / "examples" / MANIFEST).exists()


def parquet(fares):
    """Returns the bytes of a Parquet file with these fares."""
    file = io.BytesIO()
    pq.write_table(pa.table({"fare": fares, "zone": ["z"] * len(fares)}), file)
    return file.getvalue()


def records_of_which_one_is_corrupt(path):
    write_records(path, [example({"fare": float(i)}) for i in range(20)])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


PACKED = gzip.compress((GOOD * 50).encode())
TIMES = pa.array([0] * 20, pa.timestamp("s"))
PARQUET = {"format": "parquet", "path": "*.parquet"}
# What is wrong -> the files (text, bytes, or a function that writes the file), the source, and the message.
REFUSED = {
    "header only": ({"a.csv": "fare,zone\n"}, csv(), r"no rows in .*a.csv; only a header line, or nothing"),
    "folder without matches": (
        {"data/notes.md": "fare"}, csv(path="data"), r"'data' is a folder without files that end in .csv",
    ),
    "renamed column": (
        {"a.csv": GOOD, "b.csv": GOOD.replace("fare,zone", "fares,zone")}, csv(),
        r"""b.csv: no column 'fare'. Did you mean "fares"\? Columns of the file: fares, zone. If it was""",
    ),
    "truncated gzip": (
        {"a.csv": GOOD, "b.csv.gz": PACKED[: len(PACKED) // 2]}, csv(),
        r"b.csv.gz: reading stopped: Compressed file ended .* Is the file cut short",
    ),
    "corrupt record": (
        {"a.tfrecord": records_of_which_one_is_corrupt}, {"format": "tfrecord", "path": "a.tfrecord"},
        r"a.tfrecord: reading stopped: record \d+ is corrupt",
    ),
    "Parquet cut short": (
        {"a.parquet": parquet([1.0] * 1000)[:-100]}, PARQUET, r"a.parquet: reading stopped: .*Is the file cut short",
    ),
    "types that differ": (
        {"a.parquet": parquet([1.5] * 20), "b.parquet": parquet(TIMES)}, PARQUET,
        r"b.parquet: column 'fare' is of the type timestamp\[.*\], but is read as a number. Declare a",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "source", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_read_is_refused_in_words(tmp_path, files, source, says):
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(Exception, match=says) as error:
        ingest(tmp_path, source)
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
        ingest(tmp_path, csv(), bad_rows=0.2)
    lines = str(error.value).splitlines()
    assert "13 of 53 rows cannot be used; data.bad_rows allows 20.00% of rows" in lines[0]
    assert [line.split(" x ")[0].strip() for line in lines[1:-1]] == ["5", "4", "3"]
    assert all("; first: " in line and "row " in line for line in lines[1:-1])
    assert "raise data.bad_rows" in lines[-1]
    assert nothing_is_left(tmp_path)


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
