"""Whatever a small CSV holds: `init` writes a file that passes load and check, or says in words why it cannot."""

import csv
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.checks.check import require
from fullpass.pipeline.authoring.data_check.data_check import check_data, findings_table
from fullpass.pipeline.authoring.init.init import init
from fullpass.pipeline.authoring.loading.load import load

NAMES = st.one_of(
    st.sampled_from(
        ["label", "y", "at", "at.hour", "id", "a b", "a.b", '"', "`", "é", "true", "1", "fullpass_row", ""]
    ),
    st.text(max_size=6),
)
WRITTEN = "NA ? 0 1 -999 yes no 2020-01-31 1e400 $1,250 a|b|c 3% 3,10 (5) \u22125 1.2k 10,000+ -200".split()
CELLS = st.one_of(
    st.sampled_from([*WRITTEN, "", "31/12/2020 10:30", "3 7", "1 234,5", "12 kg"]),
    st.integers(-5, 10**10).map(str),
    st.floats(width=32).map(str),
    st.text(max_size=12),
    st.binary(max_size=4).map(lambda b: b.decode("latin-1")),
)


def column(cells):
    return st.lists(cells, min_size=60, max_size=60)


COLUMNS = st.one_of(
    column(CELLS),
    column(st.sampled_from(["a", "b", "c"])),
    column(st.integers(0, 1).map(str)),
    column(st.floats(-1e6, 1e6).map(lambda x: f"{x:.3f}")),
    column(st.dates().map(str)),
    st.integers(0, 59).map(lambda n: [str(i + n) for i in range(60)]),
    column(st.lists(st.sampled_from("abcd"), max_size=4).map("|".join)),
    column(st.integers(0, 10**7).map("{:,}".format)),
    column(st.text("01379,. -+", min_size=1, max_size=6)),
    st.sampled_from(", ").flatmap(
        lambda sign: column(st.lists(st.sampled_from(["3", "7", "12"]), max_size=3).map(sign.join))
    ),
)
LABELS = st.one_of(
    column(st.sampled_from(["yes", "no"])),
    column(st.sampled_from(["ham", "spam", "?", ""])),
    column(st.sampled_from(["1", "2", "3"])),
    column(st.floats(-1e3, 1e3).map(str)),
    COLUMNS,
)
TABLES = st.tuples(
    st.lists(st.tuples(NAMES, COLUMNS), min_size=1, max_size=4, unique_by=lambda column: column[0].strip()),
    st.tuples(st.sampled_from(["label", "the label", "at.hour"]), LABELS),
)


def written(folder, data, label):
    """Runs `init` and checks its file as a user would; None where it said why it cannot."""
    file = folder / "out.yaml"
    try:
        init(str(data), output=str(file), label=label)
    except UserError as error:
        assert str(error).strip()
        assert not file.exists()
        return None
    finally:
        assert sorted(p.name for p in folder.iterdir() if p != data) in ([], ["out.yaml"])
    loaded = load(file)
    problems = require(loaded)
    assert [problem for problem in problems if problem.severity == "error"] == []
    assert [problem for problem in problems if problem.path.startswith("data.derive")] == []
    report = check_data(loaded)
    assert findings_table(report)
    assert not report.has_errors or report.rows < 50, findings_table(report)
    return loaded


@pytest.mark.integration
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(TABLES, st.booleans(), st.sampled_from([",", ";", "\t"]))
def test_tables_of_any_cells(drawn, header, separator):
    columns = [*drawn[0], drawn[1]]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator)
    if header:
        writer.writerow([name for name, _ in columns])
    writer.writerows(zip(*(cells for _, cells in columns), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.csv"
        data.write_bytes(text.getvalue().encode("utf-8", "surrogatepass"))
        written(Path(folder), data, columns[-1][0] if header else f"column_{len(columns)}")


@pytest.mark.integration
@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["data.csv", "data.jsonl", "data.csv.gz", "data.parquet", "data"]))
def test_files_of_any_bytes(content, name):
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / name
        data.write_bytes(content)
        written(Path(folder), data, None)
