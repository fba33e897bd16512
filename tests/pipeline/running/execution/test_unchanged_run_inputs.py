"""A run is not unchanged if a file changed that its data, its features or its training read."""

from fullpass.components.ingest.spans.spans import find_window
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.running.execution.unchanged_run import inputs_of

YAML = """\
name: daily
data:
  source: {format: csv, path: "d/{SPAN}.csv"}
  window: {spans: 1}
label: {name: late, task: binary}
features:
  fare: number
"""
HISTORY = """\
data:
  history: {past: {entity: company, at: at, columns: [fare], within: 1d}}
  derive: {seen: past_count(past.at)}
"""
ROWS = "fare,company,at,late\n3.5,Acme,2024-02-29,1\n8.0,Blue,2024-03-01,0\n"


def changes(folder, yaml, path):
    """Returns whether the digest of the inputs differs after a file has got further content."""
    (folder / "pipeline.yaml").write_text(yaml)
    loaded = load(folder / "pipeline.yaml")

    def digest():
        return inputs_of(loaded, folder / "runs", find_window(loaded.config.data, loaded.resolve))

    before = digest()
    assert digest() == before
    (folder / path).write_text((folder / path).read_text() + "4.5,Acme,2024-02-28,1\n")
    return digest() != before


def days(folder):
    (folder / "d").mkdir()
    for number in (1, 2):
        (folder / "d" / f"{number}.csv").write_text(ROWS)


def test_earlier_spans_count_if_a_history_sees_their_rows(tmp_path):
    days(tmp_path)
    seen = YAML.replace("data:\n", HISTORY) + "  seen: number\n"
    assert changes(tmp_path, seen, "d/2.csv") and changes(tmp_path, seen, "d/1.csv")
    assert not changes(tmp_path, YAML, "d/1.csv"), "the window is span 2"


def test_the_export_that_a_warm_start_names_counts(tmp_path):
    days(tmp_path)
    (tmp_path / "base" / "variables").mkdir(parents=True)
    (tmp_path / "base" / "variables" / "variables.index").write_text("weights\n")
    warm = YAML + "training: {warm_start: base}\n"
    assert changes(tmp_path, warm, "base/variables/variables.index")
