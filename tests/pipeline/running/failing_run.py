"""A pipeline whose run ends in its first node, as a row cannot be read."""

from pathlib import Path

LIMIT_SECONDS = 300


def failing_yaml(notify: str) -> str:
    """Returns the YAML. notify: its receivers, as YAML."""
    return f"""\
name: daily
data: {{source: {{format: csv, path: trips.csv}}, bad_rows: {{max_fraction: 0}}}}
label: {{name: tip, task: regression}}
features: {{fare: number}}
notify: {notify}
"""


def write_trips(folder: Path) -> None:
    """Writes the rows of the pipeline, one of which cannot be read."""
    (folder / "trips.csv").write_text("fare,tip\n1,2\nno number,3\n")
