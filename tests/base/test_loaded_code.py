"""What a user's functions load is recorded, wherever it lies, and its changes are noticed."""

import json
import sys
import threading
from pathlib import Path

import pytest

from fullpass.base.errors import UserError
from fullpass.base.loaded_code import loaded_digest, recorded
from fullpass.base.user_modules import import_function, own_code, use_modules_of

OWN = """\
import json, sqlite3, sys
from pathlib import Path

above = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(above / "shared"))
import outer_{0}

def f():
    import lazy_{0}
    names = [path.name for path in (above / "rules").glob("*.txt")]
    (above / "notes.tmp").write_text("changes with every call")
    sqlite3.connect(above / "zones.sqlite").close()
    with open(str(above / "zo") + "nes.json") as file:
        return json.load(file), (above / "notes.tmp").read_text(), names
"""
PARTS = ("project/own_{0}.py", "shared/outer_{0}.py", "shared/lazy_{0}.py", "zones.json", "zones.sqlite", "rules/a.txt")


@pytest.fixture
def project(tmp_path, monkeypatch, request):
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"{abs(hash(request.node.name))}"  # modules of other tests stay loaded
    for part in PARTS:
        file = tmp_path / part.format(name)
        file.parent.mkdir(exist_ok=True)
        file.write_text(OWN.format(name) if "own" in part else "{}" if "json" in part else "")
    (tmp_path / "unrelated.txt").write_text("")
    use_modules_of(tmp_path / "project", tmp_path / "root" / "loaded_code")
    yield tmp_path, f"own_{name}:f", [part.format(name) for part in PARTS]
    use_modules_of(tmp_path / "project")


def call(path):
    """Loads a function and calls it as a node does, in a process in which it is not loaded yet."""
    module = path.partition(":")[0].removeprefix("own_")
    for name in [name for name in sys.modules if name.endswith(f"_{module}")]:
        del sys.modules[name]
    function = import_function(path)
    with own_code(path):
        function()


def test_a_change_of_anything_that_was_loaded_is_noticed_once_and_of_nothing_else(project):
    folder, path, parts = project
    assert loaded_digest([path]) == ""
    call(path)
    assert loaded_digest([path]) == "", "what was computed before the record is what was loaded"
    seen = {""}
    for part in parts:
        (folder / part).write_text((folder / part).read_text() + ("\n" if part != "rules/a.txt" else ""))
        if part == "rules/a.txt":
            (folder / "rules" / "b.txt").write_text("a new file of a folder that is listed")
        token = loaded_digest([path])
        assert token not in seen, part
        seen.add(token)
        call(path)
        assert loaded_digest([path]) == token, part
    (folder / "unrelated.txt").write_text("other")
    (folder / "notes.tmp").write_text("other")
    assert loaded_digest([path]) == token
    (folder / "zones.json").unlink()
    assert loaded_digest([path]) not in seen


def test_the_record_has_the_user_s_files_only_and_no_generated_ones(project):
    folder, path, parts = project
    call(path)
    records = sorted((folder / "root" / "loaded_code").rglob("*.json"))
    found = {name for record in records for name in json.loads(record.read_text())}
    assert found == {str(folder / part) for part in parts if part != "rules/a.txt"} | {str(folder / "rules")}


def test_a_record_that_cannot_be_read_counts_as_a_change(project):
    folder, path, _ = project
    call(path)
    [first, *_] = sorted((folder / "root" / "loaded_code").rglob("*.json"))
    first.write_text("{")
    assert loaded_digest([path]) != ""


def test_functions_are_told_apart(project):
    folder, path, _ = project
    call(path)
    before = loaded_digest(["other:f"]), loaded_digest([path, "other:f"])
    (folder / "zones.json").write_text("[]")
    assert loaded_digest(["other:f"]) == before[0] and loaded_digest([path, "other:f"]) != before[1]


def test_other_threads_and_blocks_are_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("FULLPASS_LOADED_CODE", str(tmp_path / "root" / "loaded_code"))
    for name in ("before", "within", "beside", "after"):
        (tmp_path / name).write_text(name)
    (tmp_path / "before").read_text()
    with recorded("m:f"):
        (tmp_path / "within").read_text()
        thread = threading.Thread(target=(tmp_path / "beside").read_text)
        thread.start()
        thread.join()
    (tmp_path / "after").read_text()
    [record] = (tmp_path / "root" / "loaded_code").rglob("*.json")
    assert list(json.loads(record.read_text())) == [str(tmp_path / "within")]


def test_a_function_that_fails_is_recorded_too(project):
    folder, path, _ = project
    (folder / "zones.json").write_text("no JSON")
    with pytest.raises(UserError, match="JSONDecodeError"):
        call(path)
    assert loaded_digest([path]) == ""
    (folder / "zones.json").write_text("{}")
    assert loaded_digest([path]) != ""


def test_nothing_is_recorded_without_a_root(tmp_path, monkeypatch):
    monkeypatch.delenv("FULLPASS_LOADED_CODE", raising=False)
    with recorded("m:f"):
        Path(__file__).read_text()
    assert loaded_digest(["m:f"]) == ""
