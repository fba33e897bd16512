"""A pipeline that reads a table instead of its source, or has other settings than its YAML."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.api.changed_yaml import named_settings, table_source, with_changes
from fullpass.pipeline.authoring.checks.check import load_checked
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError


def test_only_the_source_differs_and_no_file_stays(edited, tmp_path):
    """The YAML's own file of rows is gone, so that it cannot be what is read."""
    table = tmp_path / "elsewhere" / "t.parquet"
    table.parent.mkdir()
    pq.write_table(pa.table({"fare": [1.0], "company": ["a"], "started": ["2024-01-01"], "tips": [1.0]}), table)
    written = load(edited())
    (written.folder / "trips.csv").unlink()
    before = sorted(written.folder.iterdir())
    with with_changes(written, table_source(written, table)) as changed:
        read = load_checked(changed.file)
        assert read.config == changed.config and changed.folder == written.folder
        source = read.config.data.source
        assert (source.format, source.path, source.missing) == (
            "parquet", str(table), written.config.data.source.missing
        )  # fmt: skip
        assert read.config.model_copy(update={"data": None}) == written.config.model_copy(update={"data": None})
        assert read.config.data.split == written.config.data.split
    assert sorted(written.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("path", "why"),
    [("{train: trips.csv, eval: trips.csv}", "a source per split"), ('"{YYYY}-{MM}-{DD}.csv"', "spans")],
)
def test_data_that_one_table_cannot_replace_is_refused(tmp_path, path, why):
    file = tmp_path / "p.yaml"
    file.write_text(
        f"name: t\ndata:\n  source: {{format: csv, path: {path}}}\nlabel: {{name: a, task: binary}}\n"
        "features: {b: number}\n"
    )
    with pytest.raises(UserError, match=f"its data has {why}, and a table has not"):
        table_source(load(file), tmp_path)


@pytest.mark.parametrize(
    ("given", "keys", "written"),
    [
        ({"epochs": 3}, ("training", "epochs"), 3),
        ({"training__epochs": 3}, ("training", "epochs"), 3),
        ({"model": {"kind": "trees"}}, ("model",), {"kind": "trees"}),
        (
            {"features__fare": {"type": "category", "lowercase": True}},
            ("features", "fare"),
            {"type": "category", "lowercase": True},
        ),
    ],
)
def test_a_setting_is_named_by_its_last_key_or_by_its_path(edited, given, keys, written):
    loaded = load(edited())
    assert named_settings(loaded, given) == {keys: written}
    with with_changes(loaded, named_settings(loaded, given)) as changed:
        read = load(changed.file)
        assert read.config == changed.config != loaded.config and changed.file.read_text() == changed.text
    value = changed.tree.data
    for key in keys:
        value = value[key]
    assert value == written and not changed.file.exists()
    assert changed.folder == loaded.folder, "paths stay relative to the same folder"
    top = keys[0]
    others = {name: part for name, part in changed.config.model_dump().items() if name != top}
    assert others == {name: part for name, part in loaded.config.model_dump().items() if name != top}


def test_a_short_form_is_written_out_where_a_key_of_it_changes(edited):
    loaded = load(edited())
    with with_changes(loaded, named_settings(loaded, {"features__fare__indicator": True})) as changed:
        fare = changed.config.features["fare"]
        assert fare == loaded.config.features["fare"].model_copy(update={"indicator": True})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"epoch": 3}, 'has no setting epoch. Did you mean "epochs"'),
        ({"type": "category"}, r"type names \d+ settings of .*; give one of them: features__fare__type"),
    ],
)
def test_a_name_that_means_no_setting_or_several_is_refused(edited, given, says):
    with pytest.raises(UserError, match=says):
        named_settings(load(edited()), given)


def test_a_value_that_the_yaml_refuses_is_told_by_the_file_of_the_user(edited):
    loaded = load(edited())
    with pytest.raises(ConfigError) as caught, with_changes(loaded, named_settings(loaded, {"epochs": "many"})):
        pass
    [problem] = caught.value.problems
    assert (caught.value.file, problem.path, problem.line) == (str(loaded.file), "training.epochs", None)
    assert sorted(one.name for one in loaded.folder.glob(".*")) == []
    with (
        pytest.raises(ConfigError, match=r"pipeline.yaml: label.name: ") as caught,
        with_changes(loaded, named_settings(loaded, {"label__name": "fares"})) as changed,
    ):
        load_checked(replace(changed).file)
    assert not list(loaded.folder.glob(".*"))
