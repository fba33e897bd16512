"""What `fullpass check` ends with; of a usual file it is tested with the command (test_cli.py)."""

from fullpass.pipeline.authoring.checks.check import overview
from fullpass.pipeline.authoring.loading.load import load


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
