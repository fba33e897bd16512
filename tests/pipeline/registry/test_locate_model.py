"""Commands with a YAML open the models of that pipeline, and no other's."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import fullpass
from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.components.push.push import OWNER, push, served_version
from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.cli import app
from fullpass.pipeline.registry.locate_model import find_export, pushed_to, read_lineage


@pytest.fixture
def file(edited, monkeypatch) -> Path:
    """The YAML of the pipeline taxi, whose model is served."""
    file = edited()
    monkeypatch.chdir(file.parent)
    export = file.parent / "export"
    (export / "assets.extra").mkdir(parents=True)
    (export / "saved_model.pb").write_text("graph")
    state_file.write(export / "assets.extra" / "fullpass.json", {"name": "taxi", "lineage": {"run": "7"}})
    push(export, file.parent / "serving", keep=5, origin="Trainer/model/1")
    return file


def of_another(file: Path) -> Path:
    """Returns the YAML of another pipeline, with the same folder of pushed models."""
    other = file.with_name("other.yaml")
    other.write_text(file.read_text().replace("name: taxi", "name: other"))
    return other


def test_a_yaml_means_its_served_model(file):
    served = file.parent / "serving" / str(served_version(file.parent / "serving"))
    assert find_export(str(file), Path("none.yaml")) == served == find_export("latest", file)
    assert read_lineage(str(file), Path("none.yaml")).lineage == {"run": "7"}
    shown = CliRunner().invoke(app, ["lineage", file.name])
    assert shown.exit_code == 0 and "run  7" in shown.output


def test_a_yaml_without_a_served_model_is_told(edited):
    with pytest.raises(UserError, match="serving: no version latest"):
        find_export(str(edited()), Path("none.yaml"))


def test_check_finds_the_folder_of_another_pipeline_where_it_will_run(file):
    assert check(load(file)) == ()
    [problem] = check(load(of_another(file)))
    assert (problem.path, problem.severity) == ("push.to", "error")
    assert f"{file.parent / 'serving'}: the folder of the pushed models of taxi" in problem.message
    assert "pipeline other" in problem.message
    assert check(load(of_another(file)), runs_here=False) == (), "a cluster has its own folder"


def test_every_command_refuses_the_folder_of_another_pipeline(file):
    other, target = of_another(file), file.parent / "serving"
    before = sorted(target.rglob("*"))
    calls = (
        lambda: pushed_to(other),
        lambda: find_export("latest", other),
        lambda: find_export(str(other), other),
        lambda: fullpass.load(other, runs_here=False).rollback(),
        lambda: fullpass.load(other, runs_here=False).versions(),
        lambda: fullpass.open_model(other),
    )
    for call in calls:
        with pytest.raises(UserError, match="pushed models of taxi"):
            call()
    assert sorted(target.rglob("*")) == before
    assert pushed_to(target) == target, "a folder that is named itself"
    (target / OWNER).write_text("pipeline: other\n")
    assert pushed_to(other) == target


def test_a_folder_that_is_not_there_is_told_with_the_one_that_is_meant(file):
    target = file.parent / "serving"
    with pytest.raises(UserError, match=r'servin: there is no such folder\..* Did you mean "serving"\?'):
        pushed_to(target.with_name("servin"))
    with pytest.raises(UserError, match=r"elsewhere/serving: there is no such folder\. Give a folder of models"):
        pushed_to(file.parent / "elsewhere" / "serving")
