from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.record.config_diff import Change, Settings, differences
from fullpass.pipeline.registry.compared_model import ComparedModel
from tests import REPOSITORY
from tests.pipeline.conftest import VALID


def changes(*edits: tuple[str, str]) -> list[str]:
    new = VALID
    for old, text in edits:
        assert old in new
        new = new.replace(old, text)
    return [str(change) for change in differences(Settings.read(VALID), Settings.read(new))]


def test_texts_that_mean_the_same_do_not_differ():
    longer = ("fare: number", "fare: {type: number}  # money")
    empty = ("task: binary", "task: binary\ntraining: {}")
    assert changes(longer, empty, ("\n    path: trips.csv", "\n    path: 'trips.csv'")) == []


def test_a_change_names_its_path_with_both_values():
    assert changes(("{min: 0.8}", "{min: 0.9}")) == ["evaluation.thresholds.auc.min 0.8 -> 0.9"]
    assert changes(("evaluation:", "training: {epochs: 7}\nevaluation:"))[0].endswith("-> 7")


def test_features_are_added_removed_and_replaced_as_they_are_written():
    assert changes(("company: category", "zone: {type: number, missing: median}")) == [
        "+ features.zone {type: number, missing: median}",
        "- features.company",
    ]
    assert changes(("started: date", "started: category")) == ["features.started date -> category"]


def test_a_list_of_named_parts_is_compared_by_name():
    crosses = "crosses:\n  - {inputs: [company, started.hour], hash_buckets: %d}\nevaluation:"
    old = VALID.replace("evaluation:", crosses % 10)
    new = VALID.replace("evaluation:", crosses % 20)
    found = differences(Settings.read(old), Settings.read(new))
    assert [str(one) for one in found] == ['crosses["company x started.hour"].hash_buckets 10 -> 20']


def test_a_yaml_of_another_release_is_compared_as_it_is_written():
    old = VALID + "removed_key: 1\n"
    found = differences(Settings.read(old), Settings.read(VALID))
    assert found == (Change("removed_key", 1, None, (True, False)),)
    assert differences(Settings.read("{"), Settings.read(VALID))[0].present == (False, True)


def test_a_long_value_is_cut():
    paths = ", ".join(f"part_{i:03d}.csv" for i in range(30))
    [change] = changes(("path: trips.csv", f"path: [{paths}]"))
    assert change.endswith("...") and len(change) < 120


def test_a_recorded_yaml_is_read_as_the_file_was():
    """`until: {train: 2013-10-01}` is a date for YAML 1.1, and the text of one for a pipeline file."""
    file = REPOSITORY / "examples" / "flights" / "pipeline.yaml"
    recorded, config = file.read_text(), load(file).config
    assert "until: {train: 2013-10-01}" in recorded
    assert ComparedModel("flights", "run 1", recorded, None).config == config
    assert Settings.read(recorded).complete == config.model_dump(mode="json")
    assert Settings.read("a: [").written == {}
