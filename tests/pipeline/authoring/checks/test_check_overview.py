"""What `fullpass check` ends with; of a usual file it is tested with the command (test_cli.py)."""

import pytest

from fullpass.pipeline.authoring.checks.check import overview, require
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError


def test_overview_of_a_wide_table_stays_a_few_short_lines(tmp_path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "name: wide\ndata: {source: {format: csv, path: rows.csv}}\nlabel: {name: label, task: binary}\nfeatures:\n"
        + "".join(f"  c{i}: number\n" for i in range(500))
    )
    lines = overview(load(file).config).splitlines()
    serving = next(line for line in lines if line.startswith("  serving"))
    assert serving.startswith("  serving   needs 500 columns: c0, c1, c10, ")
    assert serving.endswith("c115 and 480 more")


def test_a_name_with_a_line_break_stays_on_its_line(tmp_path):
    """Spreadsheets write a line break into a cell of the header."""
    (tmp_path / "rows.csv").write_bytes(b'"fare\r\n(USD)",label\n')
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "name: broken\ndata: {source: {format: csv, path: rows.csv}}\nlabel: {name: label, task: binary}\n"
        'features: {"fare\\r\\n(USD)": number, "fares\\n(USD)": number}\n'
    )
    with pytest.raises(ConfigError) as found:
        require(load(file))
    (told,) = [line for line in str(found.value).splitlines() if "warning" not in line]
    named = r'Did you mean "fare\r\n(USD)"? Columns: fare\r\n(USD), label.'
    assert told.endswith(r'features["fares\n(USD)"]: no column "fares\n(USD)" in the data. ' + named)
    (serving,) = [line for line in overview(load(file).config).splitlines() if line.startswith("  serving")]
    assert serving.endswith(r"needs 2 columns: fare\r\n(USD), fares\n(USD)")
