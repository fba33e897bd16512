import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.base.locks import holding
from fullpass.base.state_file import DamagedState
from fullpass.components.push.push import (
    CURRENT,
    OWNER,
    damage_of_version,
    description,
    folder_of,
    origin_of,
    push,
    pushed_origins,
    require_owner,
    rollback,
    rolled_back,
    served_version,
    served_versions,
)
from fullpass.pipeline.registry.list_versions import read_versions
from fullpass.trainer.export.export_files import DESCRIPTION, FILES, ORIGIN, listed_files
from tests import REPOSITORY
from tests.waiting import until


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_text("graph")
    return folder


@pytest.fixture
def target(tmp_path):
    return tmp_path / "serving"


def push_many(model, target, count, keep=10):
    return [push(model, target, keep=keep, origin=f"run/{i}").version for i in range(count)]


def test_a_push_is_a_whole_new_version(model, target):
    result = push(model, target, keep=3, origin="run/1")
    assert result.created and served_versions(target) == [result.version]
    pushed = target / str(result.version)
    assert (pushed / "saved_model.pb").read_text() == "graph"
    said = json.loads((pushed / ORIGIN).read_text())
    assert said.pop("checksum") and said == {"model": "run/1", "version": result.version}
    assert sorted(p.name for p in target.iterdir()) == [".lock", str(result.version), "current"]


def served_by_tf_serving(target):
    """Returns the folder that TF Serving's default policy serves: the one with the highest number as name."""
    return max((p for p in target.iterdir() if re.fullmatch(r"[0-9]+", p.name)), key=lambda p: int(p.name))


def test_current_is_what_a_model_server_serves_after_every_change(model, target):
    a, b, c = push_many(model, target, 3)
    changes = [lambda: c, lambda: rollback(target), lambda: rollback(target, to=a), lambda: rollback(target, to=c)]
    for change, kept in zip(changes, ([a, b, c], [a, b], [a], [a, c]), strict=True):
        expected = kept[-1]
        assert change() == expected == served_version(target)
        assert served_versions(target) == kept and rolled_back(target) == [v for v in (a, b, c) if v not in kept]
        assert served_by_tf_serving(target).name == os.readlink(target / CURRENT) == str(expected)
        assert (target / CURRENT / "saved_model.pb").read_text() == "graph"


def test_a_pushed_copy_has_its_lineage_beside_its_description(model, target):
    (model / DESCRIPTION).parent.mkdir()
    state_file.write(model / DESCRIPTION, {"task": "binary", "lineage": {"run": "1"}})
    version = push(model, target, keep=3, origin="run/1", lineage={"run": "1", "metrics": {"auc": 0.9}}).version
    said = description(folder_of(target, version))
    assert said == {"task": "binary", "lineage": {"run": "1", "metrics": {"auc": 0.9}}}
    assert description(model)["lineage"] == {"run": "1"}


def test_tables_that_return_are_pushed_again_unless_they_were_rolled_back(model, target):
    tables = ["", "b", "a", "b", "b"]
    pushed = [push(model, target, keep=9, origin="run/1", refresh=one) for one in tables]
    assert [one.created for one in pushed] == [True, True, True, True, False]
    assert served_version(target) == pushed[3].version == pushed[4].version
    rollback(target)
    again = push(model, target, keep=9, origin="run/1", refresh="b")
    assert (again.version, again.created) == (pushed[3].version, False)
    assert served_version(target) == pushed[2].version


PUSH_AND_DIE = """
import os, shutil, signal, sys
from pathlib import Path
from fullpass.components.push import push
model, target, when = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
if when == "copying":
    copy = shutil.copy2
    def copied(source, destination):
        copy(source, destination)
        die()
    original = shutil.copytree
    push.shutil.copytree = lambda a, b: original(a, b, copy_function=copied)
elif when == "renamed":
    push._update_current = die
else:
    push.shutil.rmtree = die
push.push(model, target, keep=1, origin="run/new")
"""


@pytest.mark.integration
@pytest.mark.parametrize(("when", "whole"), [("copying", False), ("renamed", True), ("dropping", True)])
def test_a_push_that_is_killed_leaves_the_old_version_or_the_new_one(model, target, when, whole):
    (old,) = push_many(model, target, 1)
    command = [sys.executable, "-c", PUSH_AND_DIE, str(model), str(target), when]
    done = subprocess.run(command, cwd=REPOSITORY, timeout=60, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert all((target / str(v) / "saved_model.pb").read_text() == "graph" for v in served_versions(target))
    assert (served_version(target) == old) is not whole
    again = push(model, target, keep=1, origin="run/new")
    assert again.created is not whole and served_version(target) == again.version
    assert sorted(p.name for p in target.iterdir() if p.name.startswith(".")) == [".lock"]
    assert os.readlink(target / CURRENT) == str(again.version)


def test_versions_grow_even_within_a_second_and_old_ones_go(model, target):
    pushed = push_many(model, target, 5, keep=2)
    assert pushed == sorted(set(pushed))
    assert served_versions(target) == pushed[-2:]


def test_rolled_back_versions_older_than_the_kept_ones_are_removed(model, target):
    a, b = push_many(model, target, 2)
    rollback(target)
    c = push(model, target, keep=2, origin="run/c").version
    assert served_versions(target) == [a, c] and rolled_back(target) == [b]
    d = push(model, target, keep=2, origin="run/d").version
    assert served_versions(target) == [c, d] and rolled_back(target) == []


def test_the_same_model_is_not_pushed_twice(model, target):
    first = push(model, target, keep=3, origin="run/1")
    again = push(model, target, keep=3, origin="run/1")
    assert not again.created and again.version == first.version and served_versions(target) == [first.version]


def test_a_crash_while_copying_leaves_nothing_a_server_would_load(model, target):
    (target / ".pending-123").mkdir(parents=True)
    assert served_versions(target) == [] and served_version(target) is None
    push(model, target, keep=3, origin="run/1")
    assert len(served_versions(target)) == 1


def test_a_rolled_back_model_is_not_pushed_again(model, target):
    a, b = push_many(model, target, 2)
    rollback(target)
    assert not push(model, target, keep=3, origin="run/1").created
    assert served_version(target) == a and b in rolled_back(target)


def test_a_new_push_is_newer_than_what_was_rolled_back(model, target):
    _, b = push_many(model, target, 2)
    rollback(target)
    assert push(model, target, keep=5, origin="run/new").version > b


def test_rollback_without_an_earlier_version_says_what_there_is(model, target):
    (a,) = push_many(model, target, 1)
    with pytest.raises(UserError, match=f"no earlier version.*Versions: {a}"):
        rollback(target)
    with pytest.raises(UserError, match=f"no version 7. Versions: {a}"):
        rollback(target, to=7)


def test_a_folder_that_is_no_version_stops_nothing(model, target):
    (version,) = push_many(model, target, 1)
    for name in ("rolled_back-abc", "rolled_back-", "²", "٣", "9" * 40):
        (target / name).mkdir()
    assert served_versions(target) == [version] and rolled_back(target) == []
    assert push(model, target, keep=3, origin="run/2").created


def test_an_empty_folder_that_a_server_takes_for_a_version_is_named(model, target):
    push_many(model, target, 1)
    (target / "9999999999").mkdir()
    for change in (lambda: rollback(target), lambda: push(model, target, keep=3, origin="run/2")):
        with pytest.raises(UserError, match="9999999999 holds no model.*treats it as version 9999999999"):
            change()
    assert (target / "9999999999").is_dir()


def test_what_killed_pushes_left_goes_without_what_its_links_lead_to(model, target, tmp_path):
    push_many(model, target, 1)
    (tmp_path / "outside").mkdir()
    (target / ".pending-1").symlink_to(tmp_path / "outside")
    (target / ".removed-2").symlink_to(tmp_path / "gone")
    (target / ".pending-3").write_text("a file")
    assert push(model, target, keep=3, origin="run/2").created
    assert (tmp_path / "outside").is_dir() and not list(target.glob(".pending*")) + list(target.glob(".removed*"))


def test_a_lock_that_is_a_link_changes_nothing_elsewhere(model, target, tmp_path):
    push_many(model, target, 1)
    (tmp_path / "mine").write_text("text")
    (target / ".lock").unlink()
    (target / ".lock").symlink_to(tmp_path / "mine")
    with pytest.raises(UserError, match=r"\.lock: the lock cannot be opened: it is a link"):
        rollback(target)
    assert (tmp_path / "mine").read_text() == "text"


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"model": "run/9", "version": 1, "checksum": "0"}'])
def test_a_missing_origin_is_read_from_the_lineage_and_a_damaged_one_is_named(model, target, content):
    version = push(model, target, keep=3, origin="run/1", lineage={"model": "run/1"}).version
    bare = push(model, target, keep=3, origin="run/2").version
    for folder in (target / str(version), target / str(bare)):
        (folder / ORIGIN).unlink()
        if content is not None:
            (folder / ORIGIN).write_bytes(content)
    if content is None:
        assert [origin_of(target / str(v)) for v in (version, bare)] == ["run/1", None]
    else:
        for damaged in (version, bare):
            with pytest.raises(UserError, match=rf"{damaged}/assets.extra/origin.json is damaged: .* Put it back"):
                origin_of(target / str(damaged))
            (target / str(damaged) / ORIGIN).unlink()
    # It is not pushed twice.
    assert not push(model, target, keep=3, origin="run/1").created


def test_a_damaged_version_is_named_is_not_rolled_back_to_and_is_pushed_again(model, target):
    """The checksums are those that `export_model` writes; only the damaged file has no checksum of its own."""
    (model / "assets").mkdir()
    (model / "assets" / "vocabulary").write_bytes(b"a\nb\n")
    (model / "assets.extra").mkdir()
    state_file.write(model / DESCRIPTION, {FILES: listed_files(str(model))})
    first, second = push_many(model, target, 2)
    assert [version.damaged for version in read_versions(target)] == [None, None]
    spoilt = folder_of(target, first) / "assets" / "vocabulary"
    for damage, why in ((lambda: spoilt.write_bytes(b"a\nc\n"), "not what was written"), (spoilt.unlink, "is gone")):
        damage()
        told = [version.damaged for version in read_versions(target)]
        assert told[0] is None and str(spoilt) in told[1] and why in told[1]
        with pytest.raises(DamagedState, match=f"version {first} is not served: {spoilt}"):
            rollback(target)
        assert served_version(target) == second
    anew = push(model, target, keep=10, origin="run/0")
    assert anew.created and damage_of_version(folder_of(target, anew.version)) is None
    assert not push(model, target, keep=10, origin="run/0").created


@pytest.fixture
def named(tmp_path):
    """Returns `named(pipeline)`, the folder of a model that a pipeline made."""

    def write(pipeline):
        folder = tmp_path / "models" / pipeline
        (folder / DESCRIPTION).parent.mkdir(parents=True, exist_ok=True)
        (folder / "saved_model.pb").write_text(f"graph of {pipeline}")
        state_file.write(folder / DESCRIPTION, {"name": pipeline})
        return folder

    return write


def content(target):
    """Returns the files of a folder of models, but not the lock, whose time changes."""
    return {str(path): path.read_bytes() for path in target.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize("marked", [True, False])
def test_a_folder_is_of_the_pipeline_that_pushed_into_it_first(named, target, marked):
    push(named("cats"), target, keep=2, origin="cats/1")
    assert (target / OWNER).read_text().endswith("\npipeline: cats\n")
    if not marked:
        (target / OWNER).unlink()  # as a copy without hidden files
    before = content(target)
    for _ in range(3):
        with pytest.raises(UserError) as refused:
            push(named("dogs"), target, keep=1, origin="dogs/1")
        assert all(
            said in str(refused.value) for said in (f"{target}: ", "models of cats", "pipeline dogs", "push: {to:")
        )
    assert content(target) == before
    require_owner(target, "cats")
    assert push(named("cats"), target, keep=2, origin="cats/2").created


@pytest.mark.parametrize(("folder", "proposed"), [("serving", "serving/dogs"), ("serving/cats", "serving/dogs")])
def test_another_folder_is_proposed(named, tmp_path, folder, proposed):
    push(named("cats"), tmp_path / folder, keep=2, origin="cats/1")
    with pytest.raises(UserError, match=re.escape(f"push: {{to: {tmp_path / proposed}}}")):
        require_owner(tmp_path / folder, "dogs")


def test_a_pipeline_that_was_renamed_takes_its_folder_over_by_the_mark(named, target):
    push(named("cats"), target, keep=9, origin="cats/1")
    with pytest.raises(UserError, match="write the line `pipeline: felines` into .*fullpass-models"):
        require_owner(target, "felines")
    mark = target / OWNER
    mark.write_text(mark.read_text().replace("pipeline: cats", "pipeline: felines"))
    assert push(named("felines"), target, keep=9, origin="felines/1").created
    with pytest.raises(UserError, match="models of felines"):
        push(named("cats"), target, keep=9, origin="cats/2")
    rollback(target)
    assert (target / CURRENT / "saved_model.pb").read_text() == "graph of cats"


def test_models_that_two_pipelines_mixed_are_refused_to_both_and_named(named, target):
    for pipeline in ("cats", "dogs"):
        push(named(pipeline), target, keep=9, origin=f"{pipeline}/1")
        (target / OWNER).unlink()
        if pipeline == "cats":
            [version] = served_versions(target)
            (target / str(version)).rename(target / f"rolled_back-{version}")
            (target / f"rolled_back-{version}").rename(target.with_name("aside"))
    target.with_name("aside").rename(target / "rolled_back-7")
    for one, other in (("cats", "dogs"), ("dogs", "cats"), ("cows", "cats, dogs")):
        with pytest.raises(UserError, match=f"models of {other}. Those of the pipeline {one}"):
            require_owner(target, one)


def test_the_models_of_another_program_are_neither_replaced_nor_removed(named, target):
    """As TFX's Pusher leaves them: a SavedModel without the files of Fullpass."""
    for version in (3, 4):
        (target / str(version)).mkdir(parents=True)
        (target / str(version) / "saved_model.pb").write_text("graph")
    before = content(target)
    with pytest.raises(UserError, match=r"another program \(version 3\), another program \(version 4\)"):
        push(named("cats"), target, keep=1, origin="cats/1")
    assert content(target) == before
    (target / OWNER).write_text("pipeline: cats\n")
    assert push(named("cats"), target, keep=1, origin="cats/1").removed == (3, 4)


def test_a_damaged_description_names_no_other_pipeline(named, target):
    version = push(named("cats"), target, keep=9, origin="cats/1").version
    (target / OWNER).unlink()
    (target / str(version) / DESCRIPTION).write_text("{")
    require_owner(target, "cats")


def test_a_folder_without_models_is_everybodys(target):
    require_owner(target, "cats")
    target.mkdir()
    require_owner(target, "cats")


def test_a_push_in_place_of_a_version_needs_it_to_be_the_served_one(model, target):
    first, second = push_many(model, target, 2)
    before = content(target)
    with pytest.raises(UserError, match=f"version {second} is served by now, .* it was {first}. Nothing was changed"):
        push(model, target, keep=1, origin="run/1", refresh="tables", replaces=first)
    assert content(target) == before and served_version(target) == second
    third = push(model, target, keep=9, origin="run/1", refresh="tables", replaces=second)
    assert third.created and served_version(target) == third.version == third.served
    rollback(target)
    with pytest.raises(UserError, match=f"version {second} is served by now"):
        push(model, target, keep=9, origin="run/1", refresh="others", replaces=third.version)


def test_a_push_says_which_version_is_served_after_it(model, target):
    first, second = push_many(model, target, 2)
    again = push(model, target, keep=9, origin="run/0")
    assert (again.version, again.created, again.served) == (first, False, second)
    rollback(target)
    assert push(model, target, keep=9, origin="run/1").served == first


def test_a_rollback_that_waited_does_not_undo_what_was_pushed_meanwhile(model, target, caplog):
    """The one who gave the command saw the second version; the third came while the rollback waited."""
    first, second = push_many(model, target, 2)
    caught = []

    def roll_back():
        try:
            rollback(target)
        except UserError as error:
            caught.append(str(error))

    with holding(target / ".lock", what="a push of another", tell=print):
        waiting = threading.Thread(target=roll_back)
        waiting.start()
        until(lambda: "held by another: a push of another" in caplog.text)
        third = shutil.copytree(target / str(second), target / str(second + 1))
    waiting.join()
    [said] = caught
    assert f"version {second + 1} is served by now" in said and f"it was {second}" in said
    assert served_version(target) == int(third.name) and rolled_back(target) == []


def test_all_models_of_a_folder_are_known_served_or_not(model, target):
    push_many(model, target, 3)
    rollback(target)
    assert pushed_origins(target) == {"run/0", "run/1", "run/2"}
    assert pushed_origins(target / "elsewhere") == set()
