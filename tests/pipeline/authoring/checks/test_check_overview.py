"""What `fullpass check` ends with."""

from pathlib import Path

from fullpass.pipeline.authoring.checks.check import overview
from fullpass.pipeline.authoring.loading.load import load


def test_overview_names_the_columns_of_serving_and_training(tmp_path: Path):
    lines = overview(load(_wide(tmp_path, 3)).config).splitlines()
    assert lines[0] == "wide: binary label label, model mlp"
    assert "  features  3: 3 number" in lines
    assert "  serving   needs 3 columns: c0, c1, c2" in lines
    assert "  training  also needs: label" in lines


def test_overview_of_a_wide_table_stays_a_few_short_lines(tmp_path: Path):
    lines = overview(load(_wide(tmp_path, 500)).config).splitlines()
    serving = next(line for line in lines if line.startswith("  serving"))
    assert serving.startswith("  serving   needs 500 columns: c0, c1, c10, ")
    assert serving.endswith("c115 and 480 more")


def _wide(folder: Path, columns: int) -> Path:
    features = "".join(f"  c{i}: number\n" for i in range(columns))
    (folder / "rows.csv").write_text(",".join([*(f"c{i}" for i in range(columns)), "label"]) + "\n")
    file = folder / "pipeline.yaml"
    file.write_text(
        "name: wide\n"
        "data: {source: {format: csv, path: rows.csv}}\n"
        "label: {name: label, task: binary}\n"
        f"features:\n{features}"
        "model: {kind: mlp}\n"
        "push: {to: serving}\n"
    )
    return file
