"""Settings are written into a YAML, and nothing else of it changes."""

import pytest

from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError
from fullpass.pipeline.diagnose.apply_settings import apply, changed

TEXT = """\
# Tips.
name:   taxi   # odd blanks
input: {cache: none,   readers: 1}  # why

data:
    source: {format: csv,
             path: "a.csv"}
    # about records
    records:
        shard_mb: 1      # small
features:
  fare.usd: {type: number, compute_at: input}
  - odd
""".replace("  - odd\n", "")


def changed_lines(before: str, after: str) -> list[tuple[str, str]]:
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    return [(old, new) for old, new in pairs if old != new]


def test_only_the_lines_of_the_settings_change():
    after = changed(
        TEXT, {"input.cache": "auto", "data.records.shard_mb": 128, "features.fare.usd.compute_at": "transform"}
    )
    assert changed_lines(TEXT, after) == [
        ("input: {cache: none,   readers: 1}  # why", "input: {cache: auto,   readers: 1}  # why"),
        ("        shard_mb: 1      # small", "        shard_mb: 128      # small"),
        ("  fare.usd: {type: number, compute_at: input}", "  fare.usd: {type: number, compute_at: transform}"),
    ]


def test_a_section_that_is_not_there_is_added(edited):
    file = edited()
    before = file.read_text()
    diff = apply(file, {"input.readers": 4, "data.records.compression": "none"})
    after = file.read_text()
    config = load(file).config
    assert (config.input.readers, config.data.records.compression) == (4, "none")
    assert [line for line in after.splitlines() if line and line not in before.splitlines()] == [
        "  records:",
        "    compression: none",
        "input:",
        "  readers: 4",
    ]
    assert [line for line in before.splitlines() if line not in after.splitlines()] == []
    assert "+input:" in diff and diff.startswith(f"--- {file}")


def test_what_would_be_no_pipeline_is_not_written(edited):
    file = edited()
    before = file.read_text()
    with pytest.raises(ConfigError):
        apply(file, {"input.readers": -3})
    assert file.read_text() == before
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(".")] == []


def test_a_link_stays_a_link(edited, tmp_path):
    file = edited()
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    apply(link, {"input.readers": 2})
    assert link.is_symlink() and load(file).config.input.readers == 2
