"""The YAML without features, and what must stay because other features need it."""

import pytest

from fullpass.base.errors import UsageError, UserError
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.diagnose.shorter_pipeline import check_place, choose_weakest, without_features

YAML = """\
name: taxi
data:
  source: {format: csv, path: trips.csv}
  derive:
    big_tipper: tips > 0.2 * fare    # of the label
    twice: 2 * fare                  # of thrice
    thrice: twice + fare
label: {name: big_tipper, task: binary}
features:
  # money
  fare: number
  thrice: {type: number, transforms: [{bucketize: {buckets: 4}}]}
  company: {type: category, vocabulary: {top_k: 9}, encoding: {embedding: 4}}
  firm: {type: category, column: company, vocabulary: {shared_with: company}}
  zone: {type: category, hash: {buckets: 9}, encoding: {embedding: 4, shared: area}}
  area: {type: category, column: zone, hash: {buckets: 9}, encoding: {embedding: 4, shared: area}}
  started: date  # a day
  usual: {type: target, cross: at_hour}
crosses:
  - {inputs: [thrice, company]}
  - {name: at_hour, inputs: [zone, started.month]}
tuning:
  search: {features.company.encoding.embedding: {choices: [4, 8]}}
"""


@pytest.fixture
def loaded(folder):
    file = folder / "pipeline.yaml"
    file.write_text(YAML)
    return load(file)


@pytest.mark.parametrize(
    ("features", "gone", "instead"),
    [
        (["started", "usual"], "  started: date  # a day\n  usual: {type: target, cross: at_hour}\n", ""),
        (
            ["area"],
            "  area: {type: category, column: zone, hash: {buckets: 9}, encoding: {embedding: 4, shared: area}}\n",
            "",
        ),
        (["fare"], "  fare: number\n", ""),
    ],
)
def test_a_feature_goes_with_its_line_and_comments_stay(loaded, features, gone, instead):
    expected = YAML.replace(gone, instead)
    if "started" in features:
        expected = expected.replace("  - {name: at_hour, inputs: [zone, started.month]}\n", "")
    if "area" in features:
        expected = expected.replace("embedding: 4, shared: area", "embedding: 4")
    assert without_features(loaded, features, loaded.file).text == expected


def test_what_only_a_feature_reads_shares_or_searches_goes_too(loaded):
    shorter = without_features(loaded, ["thrice", "firm", "company"], loaded.file)
    assert list(shorter.config.data.derive) == ["big_tipper"]
    assert [cross.feature_name for cross in shorter.config.crosses] == ["at_hour"]
    assert shorter.config.tuning is None


def test_a_join_and_a_history_go_with_their_last_reader(folder):
    file = folder / "joined.yaml"
    file.write_text(
        "name: taxi\n"
        "data:\n"
        "  source: {format: csv, path: trips.csv}\n"
        "  joins:\n"
        "    firms: {source: {format: csv, path: trips.csv}, on: company}\n"
        "  history:\n"
        "    trips: {entity: company, at: started, columns: [fare, firms.size]}\n"
        "  derive:\n"
        "    usual: past_mean(trips.fare)\n"
        "label: {name: tips, task: regression}\n"
        "features:\n"
        "  fare: number\n"
        "  usual: number\n"
    )
    shorter = without_features(load(file), ["usual"], folder / "shorter.yaml")
    assert "firms" not in shorter.text and "trips:" not in shorter.text
    assert "tips" in shorter.text and "derive" not in shorter.text


def test_a_feature_that_others_need_goes_after_them_only(loaded):
    weakest_last = ["fare", "area", "thrice", "firm", "usual", "company", "zone", "started"]
    assert choose_weakest(weakest_last, 2, loaded.config) == ("usual", "firm")
    weakest_last = ["fare", "area", "thrice", "company", "started", "zone", "firm", "usual"]
    assert choose_weakest(weakest_last, 4, loaded.config) == ("usual", "firm", "zone", "started")


def test_lines_with_an_anchor_that_others_use_are_named(folder):
    file = folder / "pipeline.yaml"
    text = YAML.replace("firm: {type: category, column: company,", "firm: {<<: *c, column: company,")
    file.write_text(text.replace("fare: number", "fare: &c {type: number}").replace("<<: *c", "<<: *c, type: category"))
    with pytest.raises(UserError, match=r"features\.fare cannot be cut out, because an anchor .* Write the others out"):
        without_features(load(file), ["fare"], file)


def test_a_shorter_yaml_is_a_new_file_beside_the_yaml(loaded, folder):
    check_place(loaded, folder / "shorter.yaml")
    with pytest.raises(UsageError, match=r"already exists\. Name another file"):
        check_place(loaded, loaded.file)
    with pytest.raises(UsageError, match=r"is not in the folder of .*Name a file there: .*/shorter\.yaml"):
        check_place(loaded, folder / "other" / "shorter.yaml")
